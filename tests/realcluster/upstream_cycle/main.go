// Measures the scheduling cycles of kube-scheduler, without an API server.
//
// Standard input is a workload as JSON: nodes, running pods, and pods to schedule. The output is the
// number of cycles a second. A cycle is everything from the head of the queue to the start of the
// binding, which is a plugin that does nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

const warmUp = 50

type workload struct {
	Nodes, Running, Pods []json.RawMessage
}

type noBinding struct{}

func (noBinding) Name() string { return "NoBinding" }

func (noBinding) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

func newNoBinding(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return noBinding{}, nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func profiles() []config.KubeSchedulerProfile {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var internal config.KubeSchedulerConfiguration
	must(scheme.Scheme.Convert(&versioned, &internal, nil))
	for i := range internal.Profiles {
		bind := &internal.Profiles[i].Plugins.Bind
		bind.Enabled = []config.Plugin{{Name: "NoBinding"}}
		bind.Disabled = []config.Plugin{{Name: "DefaultBinder"}}
	}
	return internal.Profiles
}

func newScheduler(ctx context.Context) *scheduler.Scheduler {
	metrics.Register()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	everyNode := int32(100)
	sched, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(profiles()...),
		scheduler.WithPercentageOfNodesToScore(&everyNode),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{"NoBinding": newNoBinding}),
	)
	must(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return sched
}

func podsOf(texts []json.RawMessage) []*v1.Pod {
	pods := make([]*v1.Pod, len(texts))
	for i, text := range texts {
		pods[i] = &v1.Pod{}
		must(json.Unmarshal(text, pods[i]))
	}
	return pods
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := klog.FromContext(ctx)
	var given workload
	must(json.NewDecoder(os.Stdin).Decode(&given))
	sched := newScheduler(ctx)
	for _, text := range given.Nodes {
		node := &v1.Node{}
		must(json.Unmarshal(text, node))
		sched.Cache.AddNode(logger, node)
	}
	for _, pod := range podsOf(given.Running) {
		must(sched.Cache.AddPod(logger, pod))
	}
	pods := podsOf(given.Pods)
	for _, pod := range pods {
		sched.SchedulingQueue.Add(ctx, pod)
	}
	var start time.Time
	for i := range pods {
		if i == warmUp {
			start = time.Now()
		}
		sched.ScheduleOne(ctx)
	}
	seconds := time.Since(start).Seconds()
	assumed := 0
	for _, node := range sched.Cache.Dump().Nodes {
		assumed += len(node.GetPods())
	}
	if missing := len(given.Running) + len(pods) - assumed; missing != 0 {
		must(fmt.Errorf("%d pods did not get a node", missing))
	}
	fmt.Println(float64(len(pods)-warmUp) / seconds)
}
