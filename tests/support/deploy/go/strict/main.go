// Command strict decodes Kubernetes manifests from standard input as an API server with strict
// field validation does: into the Go types of their kinds, where an unknown field, a wrong type or a
// duplicate key is an error. The kinds are those of Kubernetes and of the Prometheus operator.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	kinds := scheme.Scheme
	if err := monitoringv1.AddToScheme(kinds); err != nil {
		fail(err)
	}
	decoder := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fail(err)
		}
		_, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			fail(fmt.Errorf("%w in:\n%s", err, document))
		}
		fmt.Println(kind.Kind)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
