package configs

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"optibfm/controller"
	"optibfm/internal/keys"
	"optibfm/internal/redact"
	"optibfm/internal/safefile"
)

//go:embed *.yaml
var embedded embed.FS

// ErrUnknownName is wrapped by the error for a name that is neither a
// ready-made configuration nor a file.
var ErrUnknownName = errors.New("no such configuration")

// readyMade is a ready-made configuration of a program.
type readyMade struct{ name, text string }

var registered []readyMade

// Register adds a ready-made configuration. The first one is the default of the program.
func Register(name, text string) { registered = append(registered, readyMade{name, text}) }

// DefaultName returns the name of the configuration for a run that names none: the first registered
// one, else rover.
func DefaultName() string {
	if len(registered) > 0 {
		return registered[0].name
	}
	return "rover"
}

// Names lists the ready-made configurations of the program's drivers.
func Names() (names []string) {
	entries, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // the files are in the program
	}
	for _, r := range registered {
		names = append(names, r.name)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".yaml")
		text, _ := embedded.ReadFile(e.Name())
		driver := "rover" // if the file does not set robot.driver
		if line := driverLine.FindSubmatch(text); line != nil {
			driver = string(line[1])
		}
		if slices.Contains(Drivers(), driver) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// driverLine is the line of robot.driver in a ready-made configuration.
var driverLine = regexp.MustCompile(`(?m)^  driver: +([a-z0-9_]+)`)

// Text returns the text of a ready-made configuration, with comments.
func Text(name string) ([]byte, error) {
	for _, r := range registered {
		if r.name == name {
			return []byte(r.text), nil
		}
	}
	text, err := embedded.ReadFile(path.Base(name) + ".yaml")
	if err != nil || path.Base(name) != name {
		return nil, fmt.Errorf("configs: %w (%q); %s", ErrUnknownName, name, suggest(name, Names()))
	}
	return text, nil
}

// Load reads the ready-made configuration with a name, or the file at a path. It applies the
// changes, each as key.path=value, and checks the result. It reports up to 12 mistakes together,
// each as an [*Error].
func Load(nameOrPath string, set ...string) (File, error) {
	if text, err := Text(nameOrPath); err == nil {
		return Parse(nameOrPath+".yaml", text, set...)
	}
	text, err := readFile(nameOrPath)
	if errors.Is(err, os.ErrNotExist) {
		return File{}, fmt.Errorf("configs: %w (%q); give a file or one of %s",
			ErrUnknownName, nameOrPath, strings.Join(Names(), ", "))
	}
	if err != nil {
		return File{}, fmt.Errorf("configs: %w", err)
	}
	return Parse(nameOrPath, text, set...)
}

func readFile(name string) ([]byte, error) {
	f, _, err := safefile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse is [Load] for a text. Messages contain name.
func Parse(name string, text []byte, set ...string) (File, error) {
	cfg, errs := parse(name, text, set, Default())
	if preset := cfg.Controller.Preset; len(errs) == 0 && preset != Default().Controller.Preset {
		base := Default()
		base.Controller = controller.Preset(preset)
		cfg, errs = parse(name, text, set, base)
	}
	if len(errs) > 0 {
		return File{}, Join(errs)
	}
	return cfg, nil
}

// parse reads a configuration. Keys that neither text nor set has keep their values in cfg.
func parse(name string, text []byte, set []string, cfg File) (File, []*Error) {
	doc, errs := decodeText(name, text, reflect.ValueOf(&cfg).Elem())
	unread := slices.ContainsFunc(errs, func(e *Error) bool { return e.Path == "" })
	if !unread && !doc.Has("version") {
		problem := fmt.Sprintf("version is missing; begin with 'version: %d'", Version)
		errs = append(errs, errorAt(doc.start, "version", problem))
	}
	for _, s := range set {
		errs = append(errs, override(&cfg, doc.places, s)...)
	}
	return cfg, append(errs, validate(&cfg, doc, errs)...)
}

// override applies one key.path=value.
func override(cfg *File, places map[string]position, assignment string) []*Error {
	d := decoder{src: newSource(setFlag, assignment), places: places}
	path, value, ok := strings.Cut(assignment, "=")
	width := utf8.RuneCountInString(path)
	key := place{src: d.src, line: 1, column: 1, width: width}
	if !ok {
		d.fail(key, path, "the value is missing; write key.path=value")
		return d.errs
	}
	field, section, ok := lookup(reflect.ValueOf(cfg).Elem(), path)
	if !ok {
		d.fail(key, path, "%s", unknownPath(field, section, path))
		return d.errs
	}
	for p := range places {
		if len(p) > len(path) && overlap(p, path) {
			delete(places, p)
		}
	}
	d.shift = width + 1
	at := place{src: d.src, line: 1, column: width + 2, width: max(1, utf8.RuneCountInString(value))}
	places[path] = position{key: key, value: at}
	if field.Kind() == reflect.String {
		field.SetString(value) // a string needs no YAML quotes here
		return nil
	}
	root := d.parse(value)
	for _, e := range d.errs {
		e.Path = path
	}
	if root != nil {
		d.decode(root, field, path)
	} else if len(d.errs) == 0 {
		d.fail(at, path, "%s is empty; write a value", path)
	}
	return d.errs
}

func unknownPath(section reflect.Value, sectionPath, path string) string {
	if section.Kind() == reflect.Map {
		return fmt.Sprintf("%s is a table; set all of it: %s={name: 0.3}", sectionPath, sectionPath)
	}
	if section.Kind() != reflect.Struct {
		return fmt.Sprintf("unknown key %s: %s is a value without keys", shorten(path), sectionPath)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(path, sectionPath), ".")
	key, _, _ := strings.Cut(rest, ".")
	return unknownKey(path, key, keys.Join(sectionPath, key), keys.Of(section))
}

// YAML returns a configuration in full, without comments. Parse reads it back.
func (f File) YAML() ([]byte, error) {
	text, err := yaml.Marshal(tree(reflect.ValueOf(f)))
	if err != nil {
		return nil, fmt.Errorf("configs: %w", err)
	}
	return text, nil
}

// tree converts a configuration for the YAML writer. Structs with sections of drivers become
// ordered maps.
func tree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		if !keys.Hold(v.Type()) {
			break
		}
		section := yaml.MapSlice{}
		for _, f := range keys.Fields(v) {
			omit := f.OmitEmpty && f.Value.IsZero()
			if h := f.Holder; h != nil {
				omit = h.OmitsDefault() && h.HasDefault(f.Key)
			}
			if !omit {
				section = append(section, yaml.MapItem{Key: f.Key, Value: tree(f.Value)})
			}
		}
		return section
	case reflect.Slice:
		if !keys.Hold(v.Type()) {
			break
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = tree(v.Index(i))
		}
		return list
	}
	return v.Interface()
}

// Redacted returns a copy to show or to log. It hides the secrets in addresses.
func (f File) Redacted() File {
	redactStrings(reflect.ValueOf(&f).Elem())
	return f
}

// redactStrings hides secrets in all strings of v outside of maps, which hold only numbers. It
// copies slices, so that the original keeps its strings.
func redactStrings(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(redact.Text(v.String()))
	case reflect.Struct:
		for _, f := range keys.Fields(v) {
			if f.Holder != nil {
				f.Holder.Detach()
			}
		}
		for _, f := range keys.Fields(v) {
			redactStrings(f.Value)
		}
	case reflect.Slice:
		v.Set(reflect.AppendSlice(reflect.Zero(v.Type()), v))
		for i := range v.Len() {
			redactStrings(v.Index(i))
		}
	}
}

// Summary returns the first sentence of the comment of a ready-made
// configuration, up to a colon.
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
