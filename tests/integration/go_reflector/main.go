// Command go_reflector keeps a client-go reflector on the ConfigMaps of a namespace and says on
// standard output, one JSON object a line, what the reflector tells its store.
//
// Everything is client-go's own default: WatchList, protobuf first, the backoff.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// change is one call of the store. Objects are what it holds after a replacement, or the one object
// that the call is about; the values are the objects' own field "data.value".
type change struct {
	Op      string            `json:"op"`
	Objects map[string]string `json:"objects"`
	Version string            `json:"version"`
}

// store holds nothing: whoever reads our output keeps the books.
type store struct{ out *json.Encoder }

func (s store) one(op string, obj any) error {
	found := obj.(*corev1.ConfigMap)
	return s.out.Encode(change{op, map[string]string{found.Name: found.Data["value"]}, found.ResourceVersion})
}

func (s store) Add(obj any) error    { return s.one("add", obj) }
func (s store) Update(obj any) error { return s.one("update", obj) }
func (s store) Delete(obj any) error { return s.one("delete", obj) }
func (s store) Resync() error        { return nil }

func (s store) Replace(objects []any, version string) error {
	all := map[string]string{}
	for _, obj := range objects {
		found := obj.(*corev1.ConfigMap)
		all[found.Name] = found.Data["value"]
	}
	return s.out.Encode(change{"replace", all, version})
}

// client is a REST client of the core group alone, as a generated clientset would make it.
func client(kubeconfig string) (*rest.RESTClient, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return rest.RESTClientFor(config)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "where the server is")
	namespace := flag.String("namespace", "default", "whose ConfigMaps")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	connected, err := client(*kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	listWatch := cache.NewListWatchFromClient(connected, "configmaps", *namespace, fields.Everything())
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(listWatch, connected),
		&corev1.ConfigMap{},
		store{json.NewEncoder(os.Stdout)},
		cache.ReflectorOptions{Name: "go_reflector"},
	)
	reflector.RunWithContext(ctx)
}
