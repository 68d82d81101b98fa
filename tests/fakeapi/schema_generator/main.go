// Writes fakeapi/schema.json: the fields of every Kubernetes type the fake API server stores, read from
// the struct tags of the published Go modules (k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver).
//
//	modules=$(go env GOMODCACHE)/k8s.io
//	go run . $modules v0.36.3 > ../../../fakeapi/types/schema.json
//
// It needs nothing but the standard library: the sources are parsed, not compiled.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Where the walk starts: what the server stores, and what it takes as a body.
var roots = []string{
	"core/v1.Pod", "core/v1.Node", "core/v1.Namespace", "core/v1.Service", "core/v1.ReplicationController",
	"core/v1.PersistentVolume", "core/v1.PersistentVolumeClaim", "core/v1.ConfigMap", "core/v1.Event",
	"core/v1.LimitRange", "core/v1.Secret", "core/v1.ServiceAccount", "core/v1.Endpoints",
	"core/v1.ResourceQuota", "core/v1.Binding", "core/v1.PodTemplate",
	"apps/v1.ReplicaSet", "apps/v1.StatefulSet", "apps/v1.Deployment", "apps/v1.DaemonSet",
	"apps/v1.ControllerRevision", "batch/v1.Job", "batch/v1.CronJob", "discovery/v1.EndpointSlice",
	"policy/v1.PodDisruptionBudget", "policy/v1.Eviction", "autoscaling/v1.Scale",
	"scheduling/v1.PriorityClass", "scheduling/v1alpha2.PodGroup", "scheduling/v1alpha2.Workload",
	"coordination/v1.Lease", "coordination/v1beta1.LeaseCandidate", "events/v1.Event", "node/v1.RuntimeClass",
	"storage/v1.StorageClass", "storage/v1.CSINode", "storage/v1.CSIDriver", "storage/v1.CSIStorageCapacity",
	"storage/v1.VolumeAttachment", "storage/v1.VolumeAttributesClass",
	"resource/v1.ResourceClaim", "resource/v1.ResourceClaimTemplate", "resource/v1.ResourceSlice",
	"resource/v1.DeviceClass", "resource/v1beta1.ResourceClaim", "resource/v1beta1.ResourceClaimTemplate",
	"resource/v1beta1.ResourceSlice", "resource/v1beta1.DeviceClass", "resource/v1beta2.ResourceClaim",
	"resource/v1beta2.ResourceClaimTemplate", "resource/v1beta2.DeviceTaintRule", "resource/v1beta2.ResourceSlice", "resource/v1beta2.DeviceClass",
	"meta/v1.DeleteOptions", "meta/v1.ObjectMeta",
	"apiextensions/v1.CustomResourceDefinition",
	"meta/v1.ListMeta", "meta/v1.Status", "meta/v1.APIResourceList",
	"authentication/v1.SelfSubjectReview", "authentication/v1.TokenRequest", "authentication/v1.TokenReview",
	"authorization/v1.LocalSubjectAccessReview", "authorization/v1.SelfSubjectAccessReview",
	"authorization/v1.SelfSubjectRulesReview", "authorization/v1.SubjectAccessReview",
	"rbac/v1.Role", "rbac/v1.RoleBinding", "rbac/v1.ClusterRole", "rbac/v1.ClusterRoleBinding",
	"autoscaling/v1.HorizontalPodAutoscaler", "autoscaling/v2.HorizontalPodAutoscaler",
	"networking/v1.Ingress", "networking/v1.IngressClass", "networking/v1.NetworkPolicy",
}

// What schedulers of other versions read: types, and fields of types that v0.36.3 has, too.
var others = map[string][]string{
	"v0.34.4": {"resource/v1alpha3.DeviceTaintSelector deviceClassName", "resource/v1alpha3.DeviceTaintSelector selectors"},
	"v0.35.4": {"core/v1.PodSpec workloadRef", "scheduling/v1alpha1.Workload", "resource/v1alpha3.DeviceTaintRule"},
	"v0.37.2": {
		"core/v1.NodeSpec podPreemptionPolicy", "core/v1.VolumeMount bindMountOptions",
		"core/v1.NodeAllocatableResourceClaimStatus mapping", "core/v1.NodeAllocatableResourceClaimStatus overhead",
		"resource/v1.ResourceSliceSpec partitionTypeAttribute", "resource/v1.ResourceSliceSpec skipNodeOperations",
		"resource/v1.Device nodeAllocatableResources", "resource/v1.DeviceCounterConsumption compatibilityGroups",
		"resource/v1.ExactDeviceRequest derivedAttributes", "resource/v1.DeviceSubRequest derivedAttributes",
		"resource/v1.DeviceRequestAllocationResult skipNodeOperations", "resource/v1.DeviceTaintRule",
	},
}

// Types whose JSON form is not their Go form.
var special = map[string]string{
	"meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.Duration": "duration",
	"meta/v1.FieldsV1": "raw", "resource.Quantity": "quantity", "intstr.IntOrString": "intorstring",
	"runtime.RawExtension": "raw", "types.UID": "string", "types.NodeName": "string",
	"core/v1.ResourceList":                          "resources", // a map of quantities rounded up to thousandths
	"apiextensions/v1.JSON":                         "raw",
	"apiextensions/v1.JSONSchemaPropsOrBool":        "schemaorbool",
	"apiextensions/v1.JSONSchemaPropsOrArray":       "schemaorarray",
	"apiextensions/v1.JSONSchemaPropsOrStringArray": "schemaorstrings",
}

var basic = map[string]bool{"string": true, "bool": true, "int32": true, "int64": true, "float64": true, "int": true}

type source struct {
	file *ast.File
	spec *ast.TypeSpec
	doc  *ast.CommentGroup
	pkg  string
}

type field struct {
	name, kind string
	extra      map[string]any
}

var (
	types  = map[string]source{}
	output = map[string]any{}
	atomic = map[string]bool{} // the structs that an applier replaces whole
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func load(directory, pkg string) {
	files, _ := filepath.Glob(filepath.Join(directory, "*.go"))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "zz_generated") || strings.Contains(name, "generated.pb.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			fail("%v", err)
		}
		for _, declaration := range parsed.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.TYPE {
				for _, spec := range general.Specs {
					types[pkg+"."+spec.(*ast.TypeSpec).Name.Name] = source{parsed, spec.(*ast.TypeSpec), docOf(general, spec.(*ast.TypeSpec)), pkg}
				}
			}
		}
	}
}

// A type declared alone has its comment on the declaration, one of a group on itself.
func docOf(declaration *ast.GenDecl, spec *ast.TypeSpec) *ast.CommentGroup {
	if spec.Doc != nil {
		return spec.Doc
	}
	return declaration.Doc
}

// The package a selector such as metav1.Time stands for, by the file's imports.
func imported(file *ast.File, alias string) string {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		parts := strings.Split(path, "/")
		name := parts[len(parts)-1]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name != alias {
			continue
		}
		switch {
		case strings.HasPrefix(path, "k8s.io/api/"):
			return strings.TrimPrefix(path, "k8s.io/api/")
		case strings.HasPrefix(path, "k8s.io/apimachinery/pkg/apis/"):
			return strings.TrimPrefix(path, "k8s.io/apimachinery/pkg/apis/")
		default:
			return parts[len(parts)-1]
		}
	}
	fail("no import %s", alias)
	return ""
}

func kindOf(from source, expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return kindOf(from, e.X)
	case *ast.ArrayType:
		if identifier, ok := e.Elt.(*ast.Ident); ok && identifier.Name == "byte" {
			return "bytes"
		}
		return "[]" + kindOf(from, e.Elt)
	case *ast.MapType:
		return "{}" + kindOf(from, e.Value)
	case *ast.Ident:
		if basic[e.Name] {
			return e.Name
		}
		return named(from.pkg + "." + e.Name)
	case *ast.SelectorExpr:
		return named(imported(from.file, e.X.(*ast.Ident).Name) + "." + e.Sel.Name)
	}
	fail("unknown expression %T in %s", expression, from.spec.Name.Name)
	return ""
}

func named(name string) string {
	if kind, ok := special[name]; ok {
		return kind
	}
	found, ok := types[name]
	if !ok {
		fail("no type %s", name)
	}
	if _, ok := found.spec.Type.(*ast.StructType); !ok {
		return kindOf(found, found.spec.Type)
	}
	if _, done := output[name]; !done {
		output[name] = nil
		if marks := markers(found.doc); isAtomic(marks["structType"]) || isAtomic(marks["mapType"]) {
			atomic[name] = true
		}
		fields := []any{}
		for _, f := range fieldsOf(found) {
			row := []any{f.name, f.kind}
			if len(f.extra) > 0 {
				row = append(row, f.extra)
			}
			fields = append(fields, row)
		}
		output[name] = fields
	}
	return name
}

func isAtomic(marks []string) bool {
	return len(marks) > 0 && marks[0] == "atomic"
}

func markers(group *ast.CommentGroup) map[string][]string {
	found := map[string][]string{}
	if group == nil {
		return found
	}
	for _, line := range group.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		if strings.HasPrefix(text, "+") {
			key, value, _ := strings.Cut(text[1:], "=")
			found[key] = append(found[key], value)
		}
	}
	return found
}

func fieldsOf(from source) []field {
	var fields []field
	for _, f := range from.spec.Type.(*ast.StructType).Fields.List {
		if f.Tag == nil {
			continue
		}
		text, _ := strconv.Unquote(f.Tag.Value)
		tag := reflect.StructTag(text)
		parts := strings.Split(tag.Get("json"), ",")
		name := parts[0]
		options := strings.Join(parts[1:], ",")
		if name == "-" {
			continue
		}
		if name == "" { // inlined
			inner := ""
			switch e := f.Type.(type) {
			case *ast.Ident:
				inner = from.pkg + "." + e.Name
			case *ast.SelectorExpr:
				inner = imported(from.file, e.X.(*ast.Ident).Name) + "." + e.Sel.Name
			}
			number := 0
			if parts := strings.Split(tag.Get("protobuf"), ","); len(parts) > 1 {
				number, _ = strconv.Atoi(parts[1])
			}
			for _, f := range fieldsOf(types[inner]) {
				if number > 0 { // in protobuf the inlined struct is a message of its own
					f.extra["within"] = number
				}
				if inner == "meta/v1.TypeMeta" { // and this one is not there at all
					delete(f.extra, "number")
				}
				fields = append(fields, f)
			}
			continue
		}
		extra := map[string]any{}
		flags := ""
		if _, ok := f.Type.(*ast.StarExpr); ok {
			flags += "p"
		}
		if strings.Contains(options, "omitempty") {
			flags += "o"
		}
		if strings.Contains(options, "omitzero") {
			flags += "z"
		}
		if flags != "" {
			extra["flags"] = flags
		}
		if key := tag.Get("patchMergeKey"); key != "" {
			extra["mergeKey"] = key
		}
		if strategy := tag.Get("patchStrategy"); strategy != "" {
			extra["strategy"] = strategy
		}
		if parts := strings.Split(tag.Get("protobuf"), ","); len(parts) > 1 {
			extra["number"], _ = strconv.Atoi(parts[1])
		}
		marks := markers(f.Doc)
		if listType := marks["listType"]; len(listType) > 0 {
			extra["listType"] = listType[0]
		}
		for _, key := range []string{"mapType", "structType"} {
			if mapType := marks[key]; len(mapType) > 0 {
				extra["mapType"] = mapType[0]
			}
		}
		mayBeEmpty := strings.ContainsAny(flags, "oz")
		if _, optional := marks["optional"]; optional && !mayBeEmpty {
			extra["optional"] = true // clients need not send it, though the server always does
		}
		if _, required := marks["required"]; required && mayBeEmpty {
			extra["optional"] = false
		}
		if keys := marks["listMapKey"]; len(keys) > 0 {
			extra["listMapKeys"] = keys
		}
		for _, text := range marks["default"] { // a ref(...) to a constant is no JSON and is left to defaults.py
			var value any
			if json.Unmarshal([]byte(text), &value) == nil {
				extra["default"] = value
			}
		}
		fields = append(fields, field{name, kindOf(from, f.Type), extra})
	}
	return fields
}

// Reads the types of one version.
func read(modules, version string) {
	types, output = map[string]source{}, map[string]any{}
	api := filepath.Join(modules, "api@"+version)
	directories, _ := filepath.Glob(filepath.Join(api, "*", "v*"))
	for _, directory := range directories {
		pkg, _ := filepath.Rel(api, directory)
		load(directory, pkg)
	}
	load(filepath.Join(modules, "apimachinery@"+version, "pkg/apis/meta/v1"), "meta/v1")
	load(filepath.Join(modules, "apiextensions-apiserver@"+version, "pkg/apis/apiextensions/v1"), "apiextensions/v1")
}

// Adds a type, and the types of its fields, unless they are there.
func add(known map[string]any, name string) {
	name = strings.TrimLeft(name, "[]{}")
	rows, isType := output[name].([]any)
	if _, done := known[name]; done || !isType {
		return
	}
	known[name] = rows
	for _, row := range rows {
		add(known, row.([]any)[1].(string))
	}
}

func addOthers(known map[string]any, names []string) {
	for _, name := range names {
		parent, field, isField := strings.Cut(name, " ")
		named(parent)
		if !isField {
			add(known, parent)
			continue
		}
		for _, row := range output[parent].([]any) {
			if row.([]any)[0] == field {
				known[parent] = append(known[parent].([]any), row)
				add(known, row.([]any)[1].(string))
			}
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fail("usage: schema_generator MODULES_DIRECTORY VERSION")
	}
	read(os.Args[1], os.Args[2])
	sort.Strings(roots)
	for _, root := range roots {
		named(root)
	}
	known, wholeTypes := output, atomic
	for _, version := range []string{"v0.35.4", "v0.34.4", "v0.37.2"} {
		read(os.Args[1], version)
		atomic = map[string]bool{}
		addOthers(known, others[version])
		for name := range atomic {
			if _, isKnown := known[name]; isKnown {
				wholeTypes[name] = true
			}
		}
	}
	output, atomic = known, wholeTypes
	whole := []any{}
	for name := range atomic {
		whole = append(whole, []any{name})
	}
	sort.Slice(whole, func(i, j int) bool { return whole[i].([]any)[0].(string) < whole[j].([]any)[0].(string) })
	output["$atomic"] = whole // no type: the names of those that are replaced whole
	names := make([]string, 0, len(output))
	for name := range output {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, name := range names {
		line, err := json.Marshal(output[name])
		if err != nil {
			fail("%v", err)
		}
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Printf("%q: %s%s\n", name, line, end)
	}
	fmt.Println("}")
}
