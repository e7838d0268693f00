package configs

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder reads YAML into Go values and remembers where each value came from.
// It is strict where a general decoder is kind: nothing is converted, nothing
// is skipped.
type decoder struct {
	src    *source
	shift  int // columns that the text stands to the right of its parse
	places map[string]position
	errs   []*Error
}

// position is where a key and its value stand. An override has no key of its
// own, the key of a file is always there.
type position struct{ key, value place }

func newDecoder(src *source, places map[string]position) *decoder {
	return &decoder{src: src, places: places}
}

// parse returns the root of the only document of a text, nil for one that
// holds nothing; what is wrong is added to d.errs.
func (d *decoder) parse(text string) (root ast.Node) {
	defer func() {
		// The parser is careful, but files come from anywhere.
		if r := recover(); r != nil {
			root = nil
			d.fail(place{src: d.src, line: 1, column: 1}, "", fmt.Sprintf("this is not YAML (%v): compare it with a ready-made configuration", r))
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntaxError(err)
		return nil
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			d.fail(d.tokenPlace(doc.Body.GetToken()), "", "a second document begins here: keep one configuration to a file")
			return nil
		default:
			root = doc.Body
		}
	}
	return root
}

func (d *decoder) syntaxError(err error) {
	at := place{src: d.src, line: 1, column: 1}
	text := err.Error()
	if y, ok := err.(yaml.Error); ok {
		at, text = d.tokenPlace(y.GetToken()), y.GetMessage()
	}
	text, _, _ = strings.Cut(strings.ReplaceAll(text, "'\t'", "tab"), "\n")
	d.fail(at, "", fmt.Sprintf("this is not YAML (%s): check indentation, colons and quotes", text))
}

// tokenPlace is the place of a token, on its first line.
func (d *decoder) tokenPlace(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{src: d.src, line: 1, column: 1}
	}
	text, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	return place{
		src: d.src, line: t.Position.Line, column: t.Position.Column + d.shift,
		width: utf8.RuneCountInString(text),
	}
}

func (d *decoder) fail(at place, path, problem string) {
	d.errs = append(d.errs, errorAt(at, path, problem))
}

// decode reads a node into v, whose path is given.
func (d *decoder) decode(node ast.Node, v reflect.Value, path string) {
	if refused := d.refuseFeature(node, path); refused {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(node, v, path)
	case reflect.Slice:
		d.list(node, v, path)
	default:
		d.scalar(node, v, path)
	}
}

// refuseFeature refuses what makes YAML hard to read.
func (d *decoder) refuseFeature(node ast.Node, path string) bool {
	name := ""
	switch node.(type) {
	case *ast.AnchorNode:
		name = "an anchor (&)"
	case *ast.AliasNode:
		name = "an alias (*)"
	case *ast.TagNode:
		name = "a tag (!)"
	case *ast.DirectiveNode:
		name = "a directive (%)"
	default:
		return false
	}
	d.fail(d.tokenPlace(node.GetToken()), path, subject(path)+" is "+name+": write the value out")
	return true
}

// subject names a path in a message.
func subject(path string) string {
	if path == "" {
		return "the configuration"
	}
	return path
}

func join2(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) section(node ast.Node, v reflect.Value, path string) {
	if _, empty := node.(*ast.NullNode); empty {
		return // every key is commented out: the defaults
	}
	entries, ok := entriesOf(node)
	if !ok {
		d.fail(d.tokenPlace(node.GetToken()), path, fmt.Sprintf("%s is %s: put its keys below, indented (%s)", subject(path), kindOf(node), strings.Join(keysOf(v.Type()), ", ")))
		return
	}
	seen := make(map[string]int, len(entries))
	for _, e := range entries {
		d.entry(e, v, path, seen)
	}
}

// entriesOf returns the key-value pairs of a mapping. The parser has a type of
// its own for mappings of one pair.
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
	keyPlace := d.tokenPlace(e.Key.GetToken())
	name, plain := e.Key.(*ast.StringNode)
	if !plain {
		d.fail(keyPlace, path, "this is no key: use one of "+strings.Join(keysOf(v.Type()), ", "))
		return
	}
	key := name.Value
	field, ok := fieldOf(v, key)
	if !ok {
		d.fail(keyPlace, join2(path, key), fmt.Sprintf("%s is no key: %s", shorten(join2(path, key)), suggestKey(join2(path, key), key, keysOf(v.Type()))))
		return
	}
	if line, twice := seen[key]; twice {
		d.fail(keyPlace, join2(path, key), fmt.Sprintf("%s is given twice (first in line %d): keep one", join2(path, key), line))
		return
	}
	seen[key] = keyPlace.line
	at := position{key: keyPlace, value: keyPlace}
	if e.Value == nil {
		d.fail(keyPlace, join2(path, key), join2(path, key)+" has no value: give one, or leave the key out for the default")
		return
	}
	if _, isSection := entriesOf(e.Value); !isSection {
		if p := d.tokenPlace(e.Value.GetToken()); p.line >= keyPlace.line && p.width > 0 {
			at.value = p
		}
	}
	d.places[join2(path, key)] = at
	d.decode(e.Value, field, join2(path, key))
}

func (d *decoder) list(node ast.Node, v reflect.Value, path string) {
	if _, empty := node.(*ast.NullNode); empty {
		v.SetZero()
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fail(d.tokenPlace(node.GetToken()), path, fmt.Sprintf("%s is %s: write a list, such as [a, b]", path, kindOf(node)))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		at := d.tokenPlace(firstToken(item))
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		d.places[itemPath] = position{key: at, value: at}
		d.decode(item, v.Index(i), itemPath)
	}
}

// firstToken is where an element of a list begins: a section's own token is
// the colon after its first key.
func firstToken(item ast.Node) *token.Token {
	if entries, ok := entriesOf(item); ok && len(entries) > 0 {
		return entries[0].Key.GetToken()
	}
	return item.GetToken()
}

func (d *decoder) scalar(node ast.Node, v reflect.Value, path string) {
	problem := setScalar(node, v)
	if problem != "" {
		d.fail(d.tokenPlace(node.GetToken()), path, path+" is "+problem)
	}
}

// setScalar sets v, or returns what is wrong.
func setScalar(node ast.Node, v reflect.Value) (problem string) {
	switch v.Kind() {
	case reflect.String:
		return setText(node, v)
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			return kindOf(node) + ": write true or false"
		}
		v.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		return setInt(node, v)
	case reflect.Uint64:
		return setUint(node, v)
	case reflect.Float64:
		return setFloat(node, v)
	default:
		panic("configs: a configuration type has a field of kind " + v.Kind().String())
	}
	return ""
}

func setText(node ast.Node, v reflect.Value) string {
	switch n := node.(type) {
	case *ast.StringNode:
		v.SetString(n.Value)
	case *ast.LiteralNode:
		v.SetString(n.Value.Value)
	default:
		return kindOf(node) + ": write text, in quotes where it looks like something else"
	}
	return ""
}

func setInt(node ast.Node, v reflect.Value) string {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return kindOf(node) + ": write a whole number"
	}
	if u, big := n.Value.(uint64); big {
		if u > math.MaxInt64 {
			return "too large: write a smaller number"
		}
		v.SetInt(int64(u))
		return ""
	}
	v.SetInt(n.Value.(int64))
	return ""
}

func setUint(node ast.Node, v reflect.Value) string {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return kindOf(node) + ": write a whole number"
	}
	switch x := n.Value.(type) {
	case uint64:
		v.SetUint(x)
	case int64:
		if x < 0 {
			return "negative: write 0 or more"
		}
		v.SetUint(uint64(x))
	}
	return ""
}

func setFloat(node ast.Node, v reflect.Value) string {
	switch n := node.(type) {
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return "too large: write a smaller number"
		}
		v.SetFloat(n.Value)
	case *ast.IntegerNode:
		switch x := n.Value.(type) {
		case int64:
			v.SetFloat(float64(x))
		case uint64:
			v.SetFloat(float64(x))
		}
	case *ast.StringNode:
		x, ok := powerOfTen(n)
		if !ok {
			return kindOf(node) + ": write a number"
		}
		v.SetFloat(x)
	default:
		return kindOf(node) + ": write a number"
	}
	return ""
}

// power is a number such as 1e6 or -2E+07, which YAML has and its parser here
// takes for text, though its writer writes them.
var power = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func powerOfTen(n *ast.StringNode) (float64, bool) {
	if n.Token.Type != token.StringType || !power.MatchString(n.Value) { // quoted is text
		return 0, false
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	return x, err == nil
}

// kindOf says in words what a node is.
func kindOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a section"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return fmt.Sprintf("true or false (%v)", n.Value)
	case *ast.IntegerNode:
		return fmt.Sprintf("a whole number (%v)", n.Value)
	case *ast.FloatNode:
		return fmt.Sprintf("a number (%v)", n.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return "not finite (" + n.GetToken().Value + ")"
	case *ast.StringNode:
		return fmt.Sprintf("text (%q)", shorten(n.Value))
	case *ast.LiteralNode:
		return "text"
	}
	return "not understood"
}

// shorten keeps messages on a line.
func shorten(s string) string {
	const most = 60
	r := []rune(strings.ToValidUTF8(s, "?"))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most]) + "..."
}
