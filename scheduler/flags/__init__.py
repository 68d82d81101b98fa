"""kube-scheduler's command line: `flag_set` parses, `table` has the flags, `options` checks."""
