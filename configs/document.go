package configs

import (
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Document is a text that was decoded, and where in it each value stands.
type Document struct {
	places map[string]position
	start  place
}

// Decode reads a YAML text into v, a pointer to a struct whose fields have yaml
// tags and are made of structs, slices, text, truth values and numbers. It is as
// strict as Load: what is not understood entirely is refused, every mistake with
// its place, as an [*Error]. What the text leaves out stays as it is in v. An
// embedded struct's keys are those of the struct that embeds it. name is for
// messages.
func Decode(name string, text []byte, v any) (*Document, error) {
	d, errs := decodeText(name, text, reflect.ValueOf(v).Elem())
	if len(errs) > 0 {
		return nil, join(errs)
	}
	return d, nil
}

func decodeText(name string, text []byte, v reflect.Value) (*Document, []*Error) {
	src := newSource(name, string(text))
	doc := &Document{places: make(map[string]position), start: place{src: src, line: 1, column: 1}}
	if len(text) > maxSize {
		return doc, []*Error{errorAt(doc.start, "", fmt.Sprintf("the file is too large (over %d KiB): a configuration is short", maxSize>>10))}
	}
	if !utf8.Valid(text) {
		return doc, []*Error{errorAt(doc.start, "", "the file is not text (invalid UTF-8): save it as UTF-8")}
	}
	d := newDecoder(src, doc.places)
	if root := d.parse(string(text)); root != nil {
		d.decode(root, v, "")
	}
	return doc, d.errs
}

// Has tells whether the text gives a value for a path such as methods[0].beta.
func (d *Document) Has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// Mistake is the error of a problem with the value at a path, or with the
// section around it where the text leaves it out. The problem begins with what
// is wrong and says what to do.
func (d *Document) Mistake(path, problem string) *Error {
	return errorAt(placeOf(d.places, path, d.start), path, problem)
}

// Join puts mistakes in the order of their places, and leaves most of very many
// out. It returns nil where there is none.
func Join(mistakes []*Error) error {
	if len(mistakes) == 0 {
		return nil
	}
	return join(mistakes)
}
