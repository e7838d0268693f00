package configs

import (
	"bytes"
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
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte-order mark that some editors write
	src := newSource(name, string(text))
	doc := &Document{places: make(map[string]position), start: place{src: src, line: 1, column: 1}}
	if len(text) > maxSize {
		return doc, []*Error{errorAt(doc.start, "", fmt.Sprintf("the file is too large (over %d KiB): a configuration is short", maxSize>>10))}
	}
	if line, column := invalidUTF8(text); line > 0 {
		at := place{src: src, line: line, column: column, width: 1}
		return doc, []*Error{errorAt(at, "", "the file is not text (invalid UTF-8): save it as UTF-8")}
	}
	d := newDecoder(src, doc.places)
	if root := d.parse(string(text)); root != nil {
		d.decode(root, v, "")
	}
	return doc, d.errs
}

// invalidUTF8 is the place of the first byte that is not UTF-8, from 1; 0 where there is none.
func invalidUTF8(text []byte) (line, column int) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			start := bytes.LastIndexByte(text[:i], '\n') + 1
			return 1 + bytes.Count(text[:i], []byte("\n")), 1 + utf8.RuneCount(text[start:i])
		}
		i += size
	}
	return 0, 0
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
