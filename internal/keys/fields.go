package keys

import (
	"reflect"
	"strings"
)

// keyOf returns a field's key in a file, "" for a field that files do not have.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "-" {
		return ""
	}
	return key
}

// Field is a field of a struct that files have.
type Field struct {
	Key       string
	Value     reflect.Value // settable if its struct is
	Rule      Rule
	HasRule   bool
	OmitEmpty bool         // files leave out its zero value
	Owner     reflect.Type // the struct that declares it
	Name      string       // in that struct; "" for a held section
	Doc       string       // of a held section, or the tag doc
	Holder    Holder       // of a held section
}

// Holder is an embedded field whose keys are not fields but sections of registered drivers. Its
// pointer implements it.
type Holder interface {
	// HeldKeys lists the keys in their order.
	HeldKeys() []string
	// Held returns the section of a key, settable. Copies of the holder may share it.
	Held(key string) reflect.Value
	// HeldDoc describes the section of a key.
	HeldDoc(key string) string
	// HasDefault reports whether a section has its default.
	HasDefault(key string) bool
	// OmitsDefault reports whether files leave out sections that have their default.
	OmitsDefault() bool
	// Detach makes changes of the sections invisible in copies of the holder.
	Detach()
	// ChosenBy is the key beside the sections that names the chosen one.
	ChosenBy() string
}

// Fields lists the fields of a struct in their order, including those of embedded structs.
func Fields(v reflect.Value) []Field { return fields(v, "") }

// Find finds the field of a key.
func Find(v reflect.Value, key string) (Field, bool) {
	if key == "" {
		return Field{}, false
	}
	found := fields(v, key)
	if len(found) == 0 {
		return Field{}, false
	}
	return found[0], true
}

// fields lists the fields with a key; "": all.
func fields(v reflect.Value, only string) (list []Field) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if h := holderOf(v.Field(i)); h != nil {
				list = append(list, held(h, only)...)
			} else {
				list = append(list, fields(v.Field(i), only)...)
			}
			continue
		}
		key := keyOf(f)
		if key == "" || only != "" && key != only {
			continue
		}
		rule, has := ruleOf(v.Type(), f)
		_, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		list = append(list, Field{
			Key: key, Value: v.Field(i), Rule: rule, HasRule: has, OmitEmpty: options == "omitempty",
			Owner: v.Type(), Name: f.Name, Doc: f.Tag.Get("doc"),
		})
	}
	return list
}

func held(h Holder, only string) (list []Field) {
	for _, key := range h.HeldKeys() {
		if only == "" || key == only {
			list = append(list, Field{Key: key, Value: h.Held(key), Doc: h.HeldDoc(key), Holder: h})
		}
	}
	return list
}

// holderOf returns the holder in a field, nil for another embedded struct. Of a field that is not
// settable it is a copy.
func holderOf(v reflect.Value) Holder {
	if !reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[Holder]()) {
		return nil
	}
	if !v.CanAddr() {
		settable := reflect.New(v.Type()).Elem()
		settable.Set(v)
		v = settable
	}
	return v.Addr().Interface().(Holder)
}

// Hold reports whether values of a type have held sections of their own or within.
func Hold(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return Hold(t.Elem())
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[Holder]()) {
			return true
		}
		for i := range t.NumField() {
			if Hold(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// Unused reports whether a field is the section of a driver that is not chosen and has its default.
func (f Field) Unused(owner reflect.Value) bool {
	if f.Holder == nil || !f.Holder.HasDefault(f.Key) {
		return false
	}
	choice, ok := Find(owner, f.Holder.ChosenBy())
	return ok && choice.Value.String() != f.Key
}

// Of lists the keys of a struct in their order.
func Of(v reflect.Value) (keys []string) {
	for _, f := range Fields(v) {
		keys = append(keys, f.Key)
	}
	return keys
}
