"""Queues with fair shares and gangs of pods, as kube-batch had them: the plugin `Queues`.

    plugin        the extension points; nothing is imported unless a profile names `Queues`
      args        its arguments
      ledger      queues, jobs and tasks as the informers and Reserve report them
        jobs      the tasks of a group by their states
        objects   Queue and PodGroup of kube-batch's API groups, PriorityClass
        amounts, water_filling   the deserved amounts of the queues
      order       which queue, job and task goes first
      waking      which jobs are tried again, and when
      evictions   reclaim between queues and preemption within one, for a whole gang at once
        victims   which pods may be evicted for whom
      reservations   the nodes that are kept free for a job
        starvation   reserves nodes for a job that fits nowhere for long
      statuses    writes the status of groups and queues
      parts       what these share in one profile

Facts: kube-batch v0.5.0, `docs/queues.md`.
"""
