package tflite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"optibfm/internal/safefile"
)

// encoding/json accepts duplicate keys, ignores the case of keys and leaves missing ones
// at zero. In a file that decides how a robot moves, each of these hides a mistake. The
// functions below are stricter.

// eachKey calls visit for every key of a JSON object, in the order of the text.
func eachKey(raw []byte, visit func(key string, value json.RawMessage) error) error {
	if instead := safefile.Instead(raw[:min(len(raw), 64)]); instead != "" {
		return errors.New(instead)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := expectObject(dec); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return malformed(err)
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("malformed JSON: %v instead of a key", token)
		}
		if seen[key] {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return malformed(err)
		}
		if err := visit(key, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return malformed(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("malformed JSON: text after the object")
	}
	return nil
}

func expectObject(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return malformed(err)
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%v, want a JSON object", token)
	}
	return nil
}

func malformed(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("malformed JSON: %w; copy the file again", err)
}

// fields maps each key of an object to the destination of its value: a pointer, the
// fields of a nested object, or a func(json.RawMessage) error. A key that ends in "?" is
// optional.
type fields map[string]any

// decodeObject decodes a JSON object that has the given fields and no others.
func decodeObject(raw []byte, want fields) error {
	left := maps.Clone(want)
	err := eachKey(raw, func(key string, value json.RawMessage) error {
		decode, ok := left[key]
		if !ok {
			decode, ok = left[key+"?"]
		}
		if !ok {
			return fmt.Errorf("unknown key %q (known: %s)", key, joinKeys(want))
		}
		delete(left, key)
		delete(left, key+"?")
		if err := decodeValue(value, decode); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(left, func(key string, _ any) bool { return strings.HasSuffix(key, "?") })
	if len(left) > 0 {
		return fmt.Errorf("missing keys: %s; copy the file again", joinKeys(left))
	}
	return nil
}

func decodeValue(value json.RawMessage, into any) error {
	switch into := into.(type) {
	case func(json.RawMessage) error:
		return into(value)
	case fields:
		return decodeObject(value, into)
	}
	if bytes.Equal(value, []byte("null")) {
		return errors.New("null, want a value")
	}
	err := json.Unmarshal(value, into)
	if other := new(json.UnmarshalTypeError); errors.As(err, &other) {
		return fmt.Errorf("%s, want %s", excerpt(value), wanted(other.Type.Kind()))
	}
	return err
}

// excerpt is the beginning of a value.
func excerpt(value json.RawMessage) string {
	if len(value) > 40 {
		return string(value[:40]) + "..."
	}
	return string(value)
}

// wanted names a type of JSON.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	}
	return "a list"
}

func joinKeys(of fields) string {
	keys := slices.Sorted(maps.Keys(of))
	for i, key := range keys {
		keys[i] = strings.TrimSuffix(key, "?")
	}
	return strings.Join(keys, ", ")
}
