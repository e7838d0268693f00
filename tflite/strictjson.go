package tflite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// encoding/json lets a key appear twice, matches keys whatever their case and
// leaves absent ones at zero. In a file that decides how a robot moves each of
// these hides a mistake, hence this stricter reading of objects.

// eachKey calls visit for every key of a JSON object, in the order of the text.
func eachKey(raw []byte, visit func(key string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := opening(dec); err != nil {
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
			return fmt.Errorf("malformed JSON: %v where a key should be", token)
		}
		if seen[key] {
			return fmt.Errorf("key %q is there twice: keep one", key)
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
		return errors.New("malformed JSON: more text after the object")
	}
	return nil
}

func opening(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return malformed(err)
	}
	if token != json.Delim('{') {
		return fmt.Errorf("is %v, want a JSON object", token)
	}
	return nil
}

func malformed(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("malformed JSON: %w", err)
}

// fields maps each key that an object must have to what takes its value: a
// pointer to decode into, or a func(json.RawMessage) error. A key that ends in
// "?" may be absent.
type fields map[string]any

// object reads a JSON object that has the given fields and no others.
func object(raw []byte, want fields) error {
	left := maps.Clone(want)
	err := eachKey(raw, func(key string, value json.RawMessage) error {
		take, ok := left[key]
		if !ok {
			take, ok = left[key+"?"]
		}
		if !ok {
			return fmt.Errorf("unknown key %q: this version reads %s", key, keyList(want))
		}
		delete(left, key)
		delete(left, key+"?")
		if err := takeValue(value, take); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(left, func(key string, _ any) bool { return strings.HasSuffix(key, "?") })
	if len(left) > 0 {
		return fmt.Errorf("missing: %s", keyList(left))
	}
	return nil
}

func takeValue(value json.RawMessage, take any) error {
	if read, ok := take.(func(json.RawMessage) error); ok {
		return read(value)
	}
	if bytes.Equal(value, []byte("null")) {
		return errors.New("is null: give a value")
	}
	return json.Unmarshal(value, take)
}

func keyList(of fields) string {
	keys := slices.Sorted(maps.Keys(of))
	for i, key := range keys {
		keys[i] = strings.TrimSuffix(key, "?")
	}
	return strings.Join(keys, ", ")
}
