// Evaluates a valueLocation of KEDA's scaler metrics-api on a JSON answer from stdin, and prints the
// number. KEDA reads a number as it is, and a string as a quantity of Kubernetes.
//
// Source: kedacore/keda pkg/scalers/metrics_api_scaler.go (getValueFromJSONResponse) at v2.17.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	found := gjson.GetBytes(body, os.Args[1])
	if found.Type == gjson.String {
		quantity, err := resource.ParseQuantity(found.String())
		if err != nil {
			fail(err)
		}
		fmt.Println(quantity.AsApproximateFloat64())
		return
	}
	if found.Type != gjson.Number {
		fail(fmt.Errorf("valueLocation must point to value of type number or a string representing a Quantity got: '%s'", found.String()))
	}
	fmt.Println(found.Num)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
