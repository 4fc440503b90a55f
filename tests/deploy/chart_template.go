// A stand-in for `helm template`, which no Debian has: it renders deploy/helm/attend with helm's own libraries for templates
// (text/template, sprig), YAML and JSON Schema, as Debian packages them. chart_test.mjs asks it, and helm too where there is one.
//
//	chart_template template [--namespace NAME] [--values FILE]... [--notes] RELEASE CHART
//
// It has the functions and objects that the chart uses; another one is an error. Of helm it lacks dependencies, hooks, --set, the
// order of kinds and the check of kubeVersion. --notes is its own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

// files are the chart's, beside its templates: .Files.
type files struct{ folder string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.folder, name))
	if err != nil {
		return "" // as helm does
	}
	return string(text)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func readYAML(path string) (content object) {
	text, err := os.ReadFile(path)
	check(err)
	if err := yaml.Unmarshal(text, &content); err != nil {
		check(fmt.Errorf("%s: %w", path, err))
	}
	return content
}

// merged is `over` on top of `under`: maps are merged, and null takes a value away.
func merged(under, over object) object {
	result := object{}
	for key, value := range under {
		result[key] = value
	}
	for key, value := range over {
		above, isMap := value.(object)
		below, wasMap := result[key].(object)
		if value == nil {
			delete(result, key)
		} else if isMap && wasMap {
			result[key] = merged(below, above)
		} else {
			result[key] = value
		}
	}
	return result
}

func checkSchema(values object, path string) {
	schema, err := os.ReadFile(path)
	check(err)
	found, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(values))
	check(err)
	if !found.Valid() {
		message := "values don't meet the specifications of the schema(s) in the following chart(s):\nattend:"
		for _, one := range found.Errors() {
			message += "\n- " + one.String()
		}
		check(errors.New(message))
	}
}

func functions(root *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	return all
}

func main() {
	var paths, names []string
	flags := flag.NewFlagSet("template", flag.ExitOnError)
	namespace := flags.String("namespace", "default", "")
	notes := flags.Bool("notes", false, "print NOTES.txt alone")
	flags.Func("values", "", func(path string) error { paths = append(paths, path); return nil })
	check(flags.Parse(os.Args[2:]))
	release, folder := flags.Arg(0), flags.Arg(1)

	chart := readYAML(filepath.Join(folder, "Chart.yaml"))
	values := readYAML(filepath.Join(folder, "values.yaml"))
	for _, path := range paths {
		values = merged(values, readYAML(path))
	}
	checkSchema(values, filepath.Join(folder, "values.schema.json"))
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	check(filepath.Walk(filepath.Join(folder, "templates"), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, _ := filepath.Rel(folder, path)
			text, _ := os.ReadFile(path)
			names = append(names, name)
			_, err = root.New(name).Parse(string(text))
		}
		return err
	}))
	sort.Strings(names)
	data := object{"Values": values, "Files": files{folder},
		"Chart":   object{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Release": object{"Name": release, "Namespace": *namespace, "Service": "Helm", "Revision": 1, "IsInstall": true, "IsUpgrade": false}}
	for _, name := range names {
		var text strings.Builder
		if strings.HasPrefix(filepath.Base(name), "_") {
			continue
		}
		check(root.ExecuteTemplate(&text, name, data))
		rendered := strings.ReplaceAll(text.String(), "<no value>", "")
		if isNotes := filepath.Base(name) == "NOTES.txt"; isNotes == *notes && strings.TrimSpace(rendered) != "" {
			fmt.Printf("---\n# Source: attend/%s\n%s\n", name, rendered)
		}
	}
}
