package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// FlushBackoff runs what upstream's one-second timer runs.
func (p *PriorityQueue) FlushBackoff() { p.flushBackoffQCompleted(klog.Background()) }

// FlushLeftover runs what upstream's 30-second timer runs.
func (p *PriorityQueue) FlushLeftover() { p.flushUnschedulablePodsLeftover(klog.Background()) }

// Poppable says whether Pop would return at once.
func (p *PriorityQueue) Poppable() bool {
	return p.activeQ.len() > 0 || p.isPopFromBackoffQEnabled && p.backoffQ.(*backoffQueue).lenBackoff() > 0
}

// BackoffTime is the end of a pod's backoff, in epoch milliseconds.
func (p *PriorityQueue) BackoffTime(pInfo *framework.QueuedPodInfo) int64 {
	return p.backoffQ.(*backoffQueue).getBackoffTime(pInfo).UnixMilli()
}

// InFlightList is the list of pods and events in flight, by name and label.
func (p *PriorityQueue) InFlightList() []string {
	entries := []string{}
	for _, entry := range p.activeQ.listInFlightEvents() {
		switch e := entry.(type) {
		case *v1.Pod:
			entries = append(entries, e.Name)
		case *clusterEvent:
			entries = append(entries, e.event.Label())
		}
	}
	return entries
}

// Nominations are the nodes of the nominated pods, by uid.
func (p *PriorityQueue) Nominations() map[string]string {
	nodes := map[string]string{}
	for uid, node := range p.nominator.nominatedPodToNode {
		nodes[string(uid)] = node
	}
	return nodes
}
