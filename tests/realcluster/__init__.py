"""Tests on a real cluster: etcd, kube-apiserver, kube-scheduler (`tox -e realcluster`)."""
