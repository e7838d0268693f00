package configs

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"optibfm/internal/decimal"
	"optibfm/internal/keys"
)

// maxSize is far above any configuration. It bounds the input of the parser.
const maxSize = 64 << 10

// Document is a decoded text with the place of each value.
type Document struct {
	places map[string]position
	start  place
}

// position holds the places of a key and of its value. An override has no key
// in the file.
type position struct{ key, value place }

// Decode reads a YAML text into v, a pointer to a struct of structs, slices,
// strings, booleans and numbers with yaml tags. It is as strict as [Load] and
// reports up to 12 mistakes together, each as an [*Error]. Keys that the text leaves
// out keep their values in v. The keys of an embedded struct are those of the
// struct around it. Messages contain name.
func Decode(name string, text []byte, v any) (*Document, error) {
	d, errs := decodeText(name, text, reflect.ValueOf(v).Elem())
	if len(errs) > 0 {
		return nil, Join(errs)
	}
	return d, nil
}

// Has reports whether the text has a value for a path such as methods[0].beta.
func (d *Document) Has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// Mistake returns an error about the value at a path, or about the section
// around it if the text leaves the value out.
func (d *Document) Mistake(path, problem string) *Error {
	return errorAt(d.placeOf(path), path, problem)
}

// placeOf returns the place of a value, or that of the nearest section around it.
func (d *Document) placeOf(path string) place {
	if at, ok := d.places[path]; ok {
		return at.value
	}
	for path != "" {
		path = parent(path)
		if at, ok := d.places[path]; ok {
			return at.key
		}
	}
	return d.start
}

func decodeText(name string, text []byte, v reflect.Value) (*Document, []*Error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte-order mark of some editors
	src := newSource(name, string(text))
	doc := &Document{places: make(map[string]position), start: place{src: src, line: 1, column: 1}}
	if len(text) > maxSize {
		problem := fmt.Sprintf("the file is larger than %d KiB; it is not a configuration", maxSize>>10)
		return doc, []*Error{errorAt(doc.start, "", problem)}
	}
	if !utf8.Valid(text) {
		return doc, []*Error{errorAt(invalidUTF8(src), "", "invalid UTF-8; save the file as UTF-8")}
	}
	d := decoder{src: src, places: doc.places}
	if root := d.parse(string(text)); root != nil {
		d.decode(root, v, "")
	}
	return doc, d.errs
}

// invalidUTF8 returns the place of the first byte that is not UTF-8.
func invalidUTF8(src *source) place {
	for i, line := range src.lines {
		if !utf8.ValidString(line) {
			valid, _, _ := strings.Cut(strings.ToValidUTF8(line, "\xff"), "\xff")
			return place{src: src, line: i + 1, column: 1 + utf8.RuneCountInString(valid), width: 1}
		}
	}
	return place{src: src, line: 1, column: 1}
}

// decoder walks a YAML tree beside a Go value. It checks the tree and records
// places; goccy/go-yaml parses the text and converts the scalars. The strict
// decoder of goccy/go-yaml is not used for whole sections: it stops at the
// first mistake, reports a random one of several unknown keys, truncates 2.5 to
// the integer 2, reads the string "3" as a number, and ignores an empty value.
type decoder struct {
	src    *source
	shift  int // columns by which the text is to the right of its parsed part
	places map[string]position
	errs   []*Error
}

// parse returns the root of the only document of a text, nil for an empty one.
func (d *decoder) parse(text string) (root ast.Node) {
	start := place{src: d.src, line: 1, column: 1}
	defer func() {
		if r := recover(); r != nil { // files come from anywhere
			root = nil
			d.fail(start, "", "this is not YAML (%v); compare it with a ready-made configuration", r)
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, cause := start, err.Error()
		if y, ok := err.(yaml.Error); ok {
			at, cause = d.placeOf(y.GetToken()), y.GetMessage()
		}
		cause, _, _ = strings.Cut(strings.ReplaceAll(cause, "'\t'", "tab"), "\n")
		d.fail(at, "", "this is not YAML (%s); check indentation, colons and quotes", cause)
		return nil
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			d.fail(d.placeOf(doc.Body.GetToken()), "", "a second document begins here; keep one document in a file")
			return nil
		default:
			root = doc.Body
		}
	}
	return root
}

// placeOf returns the place of a token, on its first line.
func (d *decoder) placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{src: d.src, line: 1, column: 1}
	}
	text, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	return place{
		src: d.src, line: t.Position.Line, column: t.Position.Column + d.shift, width: utf8.RuneCountInString(text),
	}
}

func (d *decoder) fail(at place, path, format string, args ...any) {
	d.errs = append(d.errs, errorAt(at, path, fmt.Sprintf(format, args...)))
}

// failNode reports a problem with the value at a path.
func (d *decoder) failNode(node ast.Node, path, format string, args ...any) {
	subject := path
	if path == "" {
		subject = "the configuration"
	}
	d.fail(d.placeOf(node.GetToken()), path, subject+format, args...)
}

// decode reads a node into v.
func (d *decoder) decode(node ast.Node, v reflect.Value, path string) {
	switch node.Type() {
	case ast.AnchorType, ast.AliasType, ast.TagType, ast.DirectiveType: // hard to read
		d.failNode(node, path, " is %s; write the value out", describe(node))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(node, v, path)
	case reflect.Slice:
		d.list(node, v, path)
	case reflect.Map:
		d.table(node, v, path)
	default:
		d.scalar(node, v, path)
	}
}

func (d *decoder) section(node ast.Node, v reflect.Value, path string) {
	if node.Type() == ast.NullType {
		return // all keys are commented out and keep their defaults
	}
	entries, ok := entriesOf(node)
	if !ok {
		d.failNode(node, path, " is %s; write its keys below, indented (%s)", describe(node),
			strings.Join(keys.Of(v), ", "))
		return
	}
	seen := make(map[string]int, len(entries))
	for _, e := range entries {
		d.entry(e, v, path, seen)
	}
}

// entriesOf returns the entries of a mapping. The parser has another type for a
// mapping of one entry.
func entriesOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func (d *decoder) entry(e *ast.MappingValueNode, v reflect.Value, path string, seen map[string]int) {
	keyPlace := d.placeOf(e.Key.GetToken())
	name, plain := e.Key.(*ast.StringNode)
	if !plain {
		d.fail(keyPlace, path, "this is not a key; use one of %s", strings.Join(keys.Of(v), ", "))
		return
	}
	key, keyPath := name.Value, keys.Join(path, name.Value)
	field, ok := keys.Find(v, key)
	if !ok {
		d.fail(keyPlace, keyPath, "%s", unknownKey(keyPath, key, keyPath, keys.Of(v)))
		return
	}
	if line, twice := seen[key]; twice {
		d.fail(keyPlace, keyPath, "%s is given twice (first in line %d); keep one", keyPath, line)
		return
	}
	seen[key] = keyPlace.line
	if e.Value == nil {
		d.fail(keyPlace, keyPath, "%s is empty; write a value, or remove the key for its default", keyPath)
		return
	}
	at := position{key: keyPlace, value: keyPlace}
	if _, isSection := entriesOf(e.Value); !isSection {
		if p := d.placeOf(e.Value.GetToken()); p.line >= keyPlace.line && p.width > 0 {
			at.value = p
		}
	}
	d.places[keyPath] = at
	d.decode(e.Value, field.Value, keyPath)
}

// isName reports whether a text is a name of a channel that YAML can write.
func isName(text string) bool {
	return text != "" && text != "<<" && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// table reads a mapping from names to numbers.
func (d *decoder) table(node ast.Node, v reflect.Value, path string) {
	v.SetZero()
	if node.Type() == ast.NullType {
		return
	}
	entries, ok := entriesOf(node)
	if !ok {
		d.failNode(node, path, " is %s; write names and numbers, such as {name: 0.3}", describe(node))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range entries {
		at := d.placeOf(e.Key.GetToken())
		name, plain := e.Key.(*ast.StringNode)
		if !plain || e.Value == nil || !isName(name.Value) {
			d.fail(at, path, "%s: this is not a name with a number; write {name: 0.3}, with odd names in quotes", path)
			continue
		}
		key, element := reflect.ValueOf(name.Value), reflect.New(v.Type().Elem()).Elem()
		if v.MapIndex(key).IsValid() {
			d.fail(at, path, "%s: %s is given twice; keep one", path, shorten(name.Value))
			continue
		}
		d.places[keys.Join(path, name.Value)] = position{key: at, value: at}
		d.decode(e.Value, element, keys.Join(path, name.Value))
		v.SetMapIndex(key, element)
	}
}

func (d *decoder) list(node ast.Node, v reflect.Value, path string) {
	if node.Type() == ast.NullType {
		v.SetZero()
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.failNode(node, path, " is %s; write a list, such as [a, b]", describe(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, element := range seq.Values {
		first := element.GetToken()
		if entries, ok := entriesOf(element); ok && len(entries) > 0 {
			first = entries[0].Key.GetToken() // the token of a mapping is the colon after its first key
		}
		at := d.placeOf(first)
		elementPath := fmt.Sprintf("%s[%d]", path, i)
		d.places[elementPath] = position{key: at, value: at}
		d.decode(element, v.Index(i), elementPath)
	}
}

func (d *decoder) scalar(node ast.Node, v reflect.Value, path string) {
	want, ok := accepts(node, v.Kind())
	if !ok {
		d.failNode(node, path, " is %s; write %s", describe(node), want)
		return
	}
	if v.Kind() != reflect.String {
		if err := decimal.Check(node.GetToken().Value); err != nil {
			d.failNode(node, path, ": %v", err)
			return
		}
	}
	err := yaml.NodeToValue(node, v.Addr().Interface())
	if err != nil || v.Kind() == reflect.Float64 && math.IsInf(v.Float(), 0) {
		v.SetZero()
		d.failNode(node, path, " is out of range (%s); write %s", shorten(node.GetToken().Value), want)
	}
}

// exponent is a number such as 1e6 or -2E+07. The parser takes it for a string;
// the writer of the same library writes it.
var exponent = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

// accepts reports whether a node is a value of a kind, and names the values of
// that kind.
func accepts(node ast.Node, kind reflect.Kind) (want string, ok bool) {
	t := node.Type()
	switch kind {
	case reflect.String:
		return "a string, in quotes if it looks like something else", t == ast.StringType || t == ast.LiteralType
	case reflect.Bool:
		return "true or false", t == ast.BoolType
	case reflect.Int, reflect.Int64:
		return "a whole number", t == ast.IntegerType
	case reflect.Uint64:
		return "a whole number of at least 0", t == ast.IntegerType
	case reflect.Float64:
		s, isString := node.(*ast.StringNode)
		unquoted := isString && s.Token.Type == token.StringType
		isNumber := t == ast.IntegerType || t == ast.FloatType
		return "a finite number", isNumber || unquoted && exponent.MatchString(s.Value)
	}
	panic("configs: a configuration type has a field of kind " + kind.String())
}

// describe names the type of a node, and the value of a short one.
func describe(node ast.Node) string {
	if _, ok := entriesOf(node); ok {
		return "a mapping"
	}
	switch t := node.Type(); t {
	case ast.NullType:
		return "empty"
	case ast.SequenceType:
		return "a list"
	case ast.LiteralType:
		return "a string"
	case ast.StringType:
		return fmt.Sprintf("a string (%q)", shorten(node.GetToken().Value))
	case ast.AnchorType, ast.AliasType:
		return "an " + t.YAMLName()
	case ast.TagType, ast.DirectiveType:
		return "a " + t.YAMLName()
	case ast.BoolType:
		return fmt.Sprintf("a boolean (%s)", node.GetToken().Value)
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return fmt.Sprintf("a number (%s)", shorten(node.GetToken().Value))
	}
	return "not a value"
}

// shorten cuts a text that would not fit on a line of a message.
func shorten(s string) string {
	const longest = 60
	r := []rune(strings.ToValidUTF8(s, "?"))
	if len(r) <= longest {
		return string(r)
	}
	return string(r[:longest]) + "..."
}
