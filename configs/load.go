package configs

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

//go:embed *.yaml
var embedded embed.FS

// maxSize is far above any configuration, and keeps what the parser is given
// within bounds.
const maxSize = 64 << 10

// ErrUnknownName is wrapped by the error for a name that neither a ready-made
// configuration nor a file has.
var ErrUnknownName = errors.New("no such configuration")

// Names lists the ready-made configurations.
func Names() []string {
	entries, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // the files are within the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return sorted(names)
}

// Text returns a ready-made configuration as it is written, with comments.
func Text(name string) ([]byte, error) {
	text, err := embedded.ReadFile(path.Base(name) + ".yaml")
	if err != nil || path.Base(name) != name {
		return nil, fmt.Errorf("configs: %w (%q): %s", ErrUnknownName, name, suggest(name, Names()))
	}
	return text, nil
}

// Load reads a configuration, by the name of a ready-made one or by a file's
// path, applies the changes, each as key.path=value, and checks the result.
// Mistakes in it are reported together, each as an [*Error].
func Load(nameOrPath string, set ...string) (File, error) {
	if text, err := Text(nameOrPath); err == nil {
		return Parse(nameOrPath+".yaml", text, set...)
	}
	text, err := readFile(nameOrPath)
	if errors.Is(err, os.ErrNotExist) {
		return File{}, fmt.Errorf("configs: %w (%q): give a file or one of %s", ErrUnknownName, nameOrPath, strings.Join(Names(), ", "))
	}
	if err != nil {
		return File{}, fmt.Errorf("configs: %w", err)
	}
	return Parse(nameOrPath, text, set...)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse is Load of a text that is at hand; name is for messages.
func Parse(name string, text []byte, set ...string) (File, error) {
	cfg := Default()
	doc, errs := decodeText(name, text, reflect.ValueOf(&cfg).Elem())
	if !doc.Has("version") && !unread(errs) {
		errs = append(errs, errorAt(doc.start, "version", fmt.Sprintf("version is missing: begin with 'version: %d'", Version)))
	}
	for _, s := range set {
		errs = append(errs, override(&cfg, doc.places, s)...)
	}
	errs = append(errs, validate(&cfg, doc, errs)...)
	if len(errs) > 0 {
		return File{}, join(errs)
	}
	return cfg, nil
}

// unread reports whether a text as a whole was not understood.
func unread(errs []*Error) bool {
	return slices.ContainsFunc(errs, func(e *Error) bool { return e.Path == "" })
}

// override applies one key.path=value.
func override(cfg *File, places map[string]position, assignment string) []*Error {
	src := newSource("--set", assignment)
	d := newDecoder(src, places)
	path, value, ok := strings.Cut(assignment, "=")
	width := utf8.RuneCountInString(path)
	key := place{src: src, line: 1, column: 1, width: width}
	if !ok {
		d.fail(key, path, "there is no value: write key.path=value")
		return d.errs
	}
	field, section, ok := lookup(reflect.ValueOf(cfg).Elem(), path)
	if !ok {
		d.fail(key, path, unknownPath(field, section, path))
		return d.errs
	}
	for p := range places {
		if strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[") {
			delete(places, p)
		}
	}
	d.shift = width + 1
	places[path] = position{key: key, value: place{src: src, line: 1, column: width + 2, width: max(1, utf8.RuneCountInString(value))}}
	if field.Kind() == reflect.String {
		field.SetString(value) // as it is: a shell's quotes are enough
		return nil
	}
	root := d.parse(value)
	for _, e := range d.errs {
		e.Path = path
	}
	if root != nil {
		d.decode(root, field, path)
	} else if len(d.errs) == 0 {
		d.fail(places[path].value, path, path+" has no value: give one")
	}
	return d.errs
}

func unknownPath(section reflect.Value, sectionPath, path string) string {
	if section.Kind() != reflect.Struct {
		return fmt.Sprintf("%s is no key: %s is a value, it has no keys", shorten(path), sectionPath)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(path, sectionPath), ".")
	wrong, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("%s is no key: %s", shorten(path), suggestKey(join2(sectionPath, wrong), wrong, keysOf(section.Type())))
}

// YAML writes a configuration in full, without comments; Parse reads it back.
func (f File) YAML() ([]byte, error) {
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("configs: %w", err)
	}
	return text, nil
}

// Summary returns the first sentence of a ready-made configuration's comment,
// up to a colon.
func Summary(name string) (string, error) {
	text, err := Text(name)
	if err != nil {
		return "", err
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	sentence, _, _ := strings.Cut(strings.Join(words, " "), ". ")
	sentence, _, _ = strings.Cut(sentence, ": ")
	return strings.TrimSuffix(sentence, ".") + ".", nil
}
