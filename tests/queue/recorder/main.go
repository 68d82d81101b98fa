// Plays scripts on upstream's own scheduling queue and prints its state after each step.
//
// `tests/queue/test_recorded.py` compares ours with what this has printed. To record anew, with the
// module cache of any machine that has built the scheduler:
//
//	cd tests/queue/recorder
//	upstream=$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)/pkg/scheduler/backend/queue
//	cp $upstream/{active_queue,backoff_queue,nominator,scheduling_queue,unschedulable_pods}.go queue/
//	go mod tidy
//	(cd ../../..; python -m tests.queue.recorded 60 60) | go run . | gzip -n9 > ../recorded.jsonl.gz
//	(cd ../../..; python -m tests.queue.recorded 20 60 7 --without-hints) | go run . --without-hints |
//	  gzip -n9 > ../recorded_without_hints.jsonl.gz
//	(cd ../../..; python -m tests.queue.recorded 20 60 7 --without-early-pops) |
//	  go run . --without-early-pops | gzip -n9 > ../recorded_without_early_pops.jsonl.gz
//
// With --without-hints the scheduler emulates 1.33, and SchedulerQueueingHints is off. A hint of a
// script that does not answer Queue is then not there: `buildQueueingHintMap` replaces all hints.
// With --without-early-pops SchedulerPopFromBackoffQ is off.
// The queue's files are copied because their package hides what must be seen; `queue/export.go` shows
// it. They are not kept here.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testingclock "k8s.io/utils/clock/testing"

	"recorder/queue"
)

const startMilliseconds = 1767225600000

type pod struct {
	Name, UID, Scheduler, Nominated string
	Priority                        int32
	Labels                          []string
	Tolerations                     int
	// The label that other pods must have for the pod to be near them.
	Near string
}

func (p pod) object() *v1.Pod {
	object := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: "default", UID: types.UID(p.UID), Labels: map[string]string{},
		},
		Spec:   v1.PodSpec{Priority: &p.Priority, SchedulerName: p.Scheduler},
		Status: v1.PodStatus{NominatedNodeName: p.Nominated},
	}
	for _, label := range p.Labels {
		object.Labels[label] = ""
	}
	if p.Near != "" {
		object.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "zone",
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: p.Near, Operator: metav1.LabelSelectorOpExists},
				}},
			}},
		}}
	}
	for i := 0; i < p.Tolerations; i++ {
		object.Spec.Tolerations = append(object.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint(i)})
	}
	return object
}

type step struct {
	Op                 string
	Pod, Old           *pod
	UID, Event, Node   string
	Rejectors, Pending []string
	Allowed            []string
	Min                *int32
	Override           bool
	Ms                 int64
}

type script struct {
	Hints    [][3]string // event, plugin, answer
	Gate     string      // the one PreEnqueue plugin, if any
	Profiles []string
	Steps    []step
}

var actions = map[string]fwk.ActionType{
	"Add": fwk.Add, "Delete": fwk.Delete, "Update": fwk.Update, "All": fwk.All,
	"UpdateNodeLabel": fwk.UpdateNodeLabel, "UpdateNodeTaint": fwk.UpdateNodeTaint,
	"UpdatePodLabel": fwk.UpdatePodLabel, "UpdatePodToleration": fwk.UpdatePodToleration,
	"UpdatePodScaleDown": fwk.UpdatePodScaleDown,
}

func eventOf(name string) fwk.ClusterEvent {
	if name == framework.UnschedulableTimeout {
		return framework.EventUnschedulableTimeout
	}
	resource, action, _ := strings.Cut(name, "/")
	return fwk.ClusterEvent{Resource: fwk.EventResource(resource), ActionType: actions[action]}
}

func hintOf(answer string) fwk.QueueingHintFn {
	return func(klog.Logger, *v1.Pod, interface{}, interface{}) (fwk.QueueingHint, error) {
		switch answer {
		case "Queue":
			return fwk.Queue, nil
		case "Error":
			return fwk.QueueSkip, fmt.Errorf("broken")
		}
		return fwk.QueueSkip, nil
	}
}

type gate struct {
	name    string
	allowed sets.Set[string]
}

func (g *gate) Name() string { return g.name }

func (g *gate) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	for label := range p.Labels {
		if g.allowed.Has(label) {
			return nil
		}
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no")
}

type lister struct{ pods map[string]*v1.Pod }

func (l lister) List(labels.Selector) ([]*v1.Pod, error)  { return nil, nil }
func (l lister) Pods(string) listersv1.PodNamespaceLister { return l }
func (l lister) Get(name string) (*v1.Pod, error) {
	if p, ok := l.pods[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("not found")
}

func gather() map[string]float64 {
	values := map[string]float64{}
	families, _ := legacyregistry.DefaultGatherer.Gather()
	for _, family := range families {
		switch family.GetName() {
		case "scheduler_queue_incoming_pods_total", "scheduler_pending_pods", "scheduler_unschedulable_pods":
		default:
			continue
		}
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "scheduler_")
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}

// stage is a queue on which a script is played.
type stage struct {
	queue  *queue.PriorityQueue
	clock  *testingclock.FakeClock
	gate   *gate
	listed lister
	popped map[string]*framework.QueuedPodInfo
}

func newStage(ctx context.Context, s script) *stage {
	st := &stage{
		clock:  testingclock.NewFakeClock(time.UnixMilli(startMilliseconds).UTC()),
		gate:   &gate{s.Gate, sets.New("in")},
		listed: lister{map[string]*v1.Pod{}},
		popped: map[string]*framework.QueuedPodInfo{},
	}
	hints := queue.QueueingHintMapPerProfile{}
	gates := map[string]map[string]fwk.PreEnqueuePlugin{}
	for _, profile := range s.Profiles {
		hints[profile] = queue.QueueingHintMap{}
		for _, hint := range s.Hints {
			event := eventOf(hint[0])
			hints[profile][event] = append(hints[profile][event],
				&queue.QueueingHintFunction{PluginName: hint[1], QueueingHintFn: hintOf(hint[2])})
		}
		if s.Gate != "" {
			gates[profile] = map[string]fwk.PreEnqueuePlugin{s.Gate: st.gate}
		}
	}
	st.queue = queue.NewPriorityQueue(
		(&queuesort.PrioritySort{}).Less,
		informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		queue.WithClock(st.clock),
		queue.WithPodLister(st.listed),
		queue.WithQueueingHintMapPerProfile(hints),
		queue.WithPreEnqueuePluginMap(gates),
		queue.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Hour, ctx.Done())),
	)
	return st
}

// take carries out one step; what it returns is the uid of a popped pod, or an error's text.
func (st *stage) take(ctx context.Context, c step) string {
	q, logger := st.queue, klog.Background()
	var info *framework.QueuedPodInfo
	switch c.Op {
	case "add":
		st.listed.pods[c.Pod.Name] = c.Pod.object()
		q.Add(ctx, c.Pod.object())
	case "update":
		st.listed.pods[c.Pod.Name] = c.Pod.object()
		q.Update(ctx, c.Old.object(), c.Pod.object())
	case "delete":
		delete(st.listed.pods, c.Pod.Name)
		q.Delete(c.Pod.object())
	case "pop":
		if q.Poppable() {
			info, _ = q.Pop(logger)
		}
	case "pop specific":
		info = q.PopSpecificPod(logger, c.Pod.object())
	case "fail":
		info := st.popped[c.UID]
		delete(st.popped, c.UID)
		info.ClearRejectorPlugins()
		info.UnschedulablePlugins = sets.New(c.Rejectors...)
		info.PendingPlugins = sets.New(c.Pending...)
		info.PodInfo, _ = framework.NewPodInfo(c.Pod.object())
		if err := q.AddUnschedulableIfNotPresent(logger, info, q.SchedulingCycle()); err != nil {
			return err.Error()
		}
	case "done":
		delete(st.popped, c.UID)
		q.Done(types.UID(c.UID))
	case "activate":
		q.Activate(logger, map[string]*v1.Pod{"": c.Pod.object()})
	case "event":
		var check queue.PreEnqueueCheck
		if c.Min != nil {
			check = func(p *v1.Pod) bool { return *p.Spec.Priority >= *c.Min }
		}
		q.MoveAllToActiveOrBackoffQueue(logger, eventOf(c.Event), nil, nil, check)
	case "assigned add":
		q.AssignedPodAdded(logger, c.Pod.object())
	case "assigned update":
		q.AssignedPodUpdated(logger, c.Old.object(), c.Pod.object(), eventOf(c.Event))
	case "wait":
		st.clock.Step(time.Duration(c.Ms) * time.Millisecond)
	case "flush backoff":
		q.FlushBackoff()
	case "flush leftover":
		q.FlushLeftover()
	case "gate":
		st.gate.allowed = sets.New(c.Allowed...)
	case "nominate":
		podInfo, _ := framework.NewPodInfo(c.Pod.object())
		mode := fwk.ModeNoop
		if c.Override {
			mode = fwk.ModeOverride
		}
		q.AddNominatedPod(logger, podInfo,
			&fwk.NominatingInfo{NominatingMode: mode, NominatedNodeName: c.Node})
	default:
		panic(c.Op)
	}
	if info == nil {
		return ""
	}
	st.popped[string(info.Pod.UID)] = info
	return string(info.Pod.UID)
}

func milliseconds(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli() - startMilliseconds
}

func (st *stage) state(result string) map[string]interface{} {
	q := st.queue
	pods := map[string]interface{}{}
	for place, list := range map[string][]*v1.Pod{
		"active": q.PodsInActiveQ(), "backoff": q.PodsInBackoffQ(), "unschedulable": q.UnschedulablePods(),
	} {
		for _, p := range list {
			info, _ := q.GetPod(p.Name, p.Namespace)
			shown := map[string]interface{}{
				"place": place, "uid": info.Pod.UID, "attempts": info.Attempts,
				"unschedulable": info.UnschedulableCount, "errors": info.ConsecutiveErrorsCount,
				"since": milliseconds(&info.Timestamp), "initial": milliseconds(info.InitialAttemptTimestamp),
				"rejectors": sets.List(info.UnschedulablePlugins), "pending": sets.List(info.PendingPlugins),
				"gate": info.GatingPlugin, "flushed": info.WasFlushedFromUnschedulable,
			}
			if place == "backoff" {
				shown["until"] = q.BackoffTime(info) - startMilliseconds
			}
			pods[p.Name] = shown
		}
	}
	_, summary := q.PendingPods()
	return map[string]interface{}{
		"result": result, "pods": pods, "in_flight": q.InFlightList(), "summary": summary,
		"nominations": q.Nominations(), "cycle": q.SchedulingCycle(),
	}
}

func play(s script) map[string]interface{} {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := gather()
	st := newStage(ctx, s)
	states := []interface{}{}
	for _, c := range s.Steps {
		// No two pods ever wait since the same moment: upstream would pop either of them.
		st.clock.Step(time.Millisecond)
		states = append(states, st.state(st.take(ctx, c)))
	}
	counted := map[string]float64{}
	for name, value := range gather() {
		if change := value - before[name]; change != 0 {
			counted[name] = change
		}
	}
	return map[string]interface{}{"states": states, "metrics": counted}
}

func main() {
	klog.SetLogger(klog.New(nil))
	gates := utilfeature.DefaultMutableFeatureGate
	switch strings.Join(os.Args[1:], " ") {
	case "--without-hints":
		if err := gates.SetEmulationVersion(version.MustParse("1.33")); err != nil {
			panic(err)
		}
		if err := gates.Set("SchedulerQueueingHints=false"); err != nil {
			panic(err)
		}
	case "--without-early-pops":
		if err := gates.Set("SchedulerPopFromBackoffQ=false"); err != nil {
			panic(err)
		}
	}
	metrics.Register()
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	encoder := json.NewEncoder(os.Stdout)
	for decoder.More() {
		var raw json.RawMessage
		var s script
		if err := decoder.Decode(&raw); err != nil {
			panic(err)
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			panic(err)
		}
		played := play(s)
		played["script"] = raw
		if err := encoder.Encode(played); err != nil {
			panic(err)
		}
	}
}
