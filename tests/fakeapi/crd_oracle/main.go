// Answers what kube-apiserver's own packages say of custom resources and their definitions: the yardstick
// of fakeapi/crds. One JSON request a line on standard input, one answer a line on standard output.
//
//	go mod tidy && go build -o /tmp/crd_oracle . && python -m tests.fakeapi.crd_oracle.record /tmp/crd_oracle
//
// A request has a CRD (all errors of a definition), or a Schema and a Value (what pruning and defaulting make
// of the value, and its errors), and with those an Old value (an update, with ratcheting).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

type request struct {
	CRD    json.RawMessage
	OldCRD json.RawMessage
	Schema json.RawMessage
	Value  json.RawMessage
	Old    json.RawMessage
}

func causes(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Field+"|"+string(e.Type)+"|"+e.ErrorBody())
	}
	return out
}

func main() {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 1<<26)
	for scanner.Scan() {
		var r request
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			panic(err)
		}
		out := map[string]any{}
		func() {
			defer func() {
				if p := recover(); p != nil {
					out["panic"] = fmt.Sprint(p)
				}
			}()
			if len(r.CRD) > 0 {
				var crd v1.CustomResourceDefinition
				if err := json.Unmarshal(r.CRD, &crd); err != nil {
					out["error"] = err.Error()
					return
				}
				v1.SetDefaults_CustomResourceDefinition(&crd)
				var in apiextensions.CustomResourceDefinition
				if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &in, nil); err != nil {
					out["error"] = err.Error()
					return
				}
				c := causes(crdvalidation.ValidateCustomResourceDefinition(context.TODO(), &in))
				sort.Strings(c)
				out["crd"] = c
				return
			}
			var props v1.JSONSchemaProps
			if err := json.Unmarshal(r.Schema, &props); err != nil {
				out["error"] = err.Error()
				return
			}
			var in apiextensions.JSONSchemaProps
			if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &in, nil); err != nil {
				out["error"] = err.Error()
				return
			}
			ss, err := structuralschema.NewStructural(&in)
			if err != nil {
				out["error"] = err.Error()
				return
			}
			validator, _, err := validation.NewSchemaValidator(&in)
			if err != nil {
				out["error"] = err.Error()
				return
			}
			var value, old any
			utiljson.Unmarshal(r.Value, &value)
			defaulting.PruneNonNullableNullsWithoutDefaults(value, ss)
			defaulting.Default(value, ss)
			out["pruned"] = pruning.PruneWithOptions(value, ss, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
			out["value"] = value
			var errs field.ErrorList
			if len(r.Old) > 0 {
				utiljson.Unmarshal(r.Old, &old)
				correlated := common.NewCorrelatedObject(value, old, &model.Structural{Structural: ss})
				errs = validation.ValidateCustomResourceUpdate(nil, value, old, validator, validation.WithRatcheting(correlated))
			} else {
				errs = validation.ValidateCustomResource(nil, value, validator)
			}
			if m, ok := value.(map[string]any); ok {
				errs = append(errs, listtype.ValidateListSetsAndMaps(nil, ss, m)...)
			}
			c := causes(errs)
			sort.Strings(c)
			out["errors"] = c
		}()
		b, _ := json.Marshal(out)
		fmt.Println(string(b))
	}
}
