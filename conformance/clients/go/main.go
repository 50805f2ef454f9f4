// Command clients uses the cluster that KUBECONFIG names by way of client-go: discovery, an informer, a lease by which
// one of two leads, server-side apply with a conflict, the dynamic client. It ends with 0 if all of it works.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const namespace = "client-go"

// patience bounds everything that this program waits for.
const patience = time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check("read the kubeconfig", err)
	clients := kubernetes.NewForConfigOrDie(config)
	discover(clients)
	_, err = clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	check("create the namespace", err)
	informed(ctx, clients)
	applied(ctx, clients)
	dynamically(ctx, dynamic.NewForConfigOrDie(config))
	led(ctx, clients)
	check("delete the namespace", clients.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	fmt.Println("client-go works")
}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot %s: %v\n", what, err)
		os.Exit(1)
	}
}

func discover(clients *kubernetes.Clientset) {
	_, resources, err := clients.Discovery().ServerGroupsAndResources()
	check("discover", err)
	for _, list := range resources {
		for _, resource := range list.APIResources {
			if list.GroupVersion == "apps/v1" && resource.Name == "deployments" {
				return
			}
		}
	}
	check("discover", fmt.Errorf("no deployments in %d versions", len(resources)))
}

// informed expects every change of a ConfigMap from an informer.
func informed(ctx context.Context, clients *kubernetes.Clientset) {
	seen := make(chan string, 16)
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	name := func(object any) string { return object.(*corev1.ConfigMap).Name }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen <- "added " + name(object) },
		UpdateFunc: func(_, object any) { seen <- "updated " + name(object) },
		DeleteFunc: func(object any) { seen <- "deleted " + name(object) },
	})
	check("listen", err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	maps := clients.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	check("create a ConfigMap", err)
	made.Data = map[string]string{"k": "v"}
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check("update it", err)
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		check("see a stale update refused", fmt.Errorf("got %v", err))
	}
	check("delete it", maps.Delete(ctx, "a", metav1.DeleteOptions{}))
	for _, wanted := range []string{"added a", "updated a", "deleted a"} {
		for got := ""; got != wanted; {
			select {
			case got = <-seen:
			case <-ctx.Done():
				check("hear that "+wanted, ctx.Err())
			}
		}
	}
}

// applied expects a conflict between two managers, and that force resolves it.
func applied(ctx context.Context, clients *kubernetes.Clientset) {
	maps := clients.CoreV1().ConfigMaps(namespace)
	of := func(value string) *applycore.ConfigMapApplyConfiguration {
		return applycore.ConfigMap("b", namespace).WithData(map[string]string{"k": value})
	}
	_, err := maps.Apply(ctx, of("one"), metav1.ApplyOptions{FieldManager: "first"})
	check("apply", err)
	if _, err = maps.Apply(ctx, of("two"), metav1.ApplyOptions{FieldManager: "second"}); !apierrors.IsConflict(err) {
		check("see a conflict", fmt.Errorf("got %v", err))
	}
	result, err := maps.Apply(ctx, of("two"), metav1.ApplyOptions{FieldManager: "second", Force: true})
	check("apply by force", err)
	extracted, err := applycore.ExtractConfigMap(result, "second")
	check("extract what was applied", err)
	if extracted.Data["k"] != "two" {
		check("own what was applied", fmt.Errorf("got %v", extracted.Data))
	}
}

func dynamically(ctx context.Context, client dynamic.Interface) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	maps := client.Resource(resource).Namespace(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
	check("list dynamically", err)
	if len(list.Items) != 1 {
		check("find the ConfigMap", fmt.Errorf("got %d", len(list.Items)))
	}
}

// led lets one candidate lead and give up, and another take over.
func led(ctx context.Context, clients *kubernetes.Clientset) {
	for _, identity := range []string{"first", "second"} {
		turn, end := context.WithCancel(ctx)
		leads := make(chan struct{})
		go leaderelection.RunOrDie(turn, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
				Client:     clients.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { close(leads) },
				OnStoppedLeading: func() {},
			},
		})
		select {
		case <-leads:
		case <-ctx.Done():
			check(identity+" lead", ctx.Err())
		}
		end()
	}
}
