package sections

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// Section is the part of a configuration that belongs to one driver.
type Section struct {
	Name    string // the key
	Doc     string // a sentence for the schema
	Default any    // a struct
}

// List is the sections of the drivers of one kind, in the order of their registration.
type List struct {
	kind     string
	reserved []string // other keys beside the sections
	sections []Section
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// NewList returns an empty list. kind is the word of its drivers in messages; reserved are the
// other keys beside the sections.
func NewList(kind string, reserved ...string) *List { return &List{kind: kind, reserved: reserved} }

// Add adds a section. It panics if another one has its name or its type.
func (l *List) Add(s Section) {
	if !validName.MatchString(s.Name) || slices.Contains(l.reserved, s.Name) {
		panic(fmt.Sprintf("optibfm: register %s: bad name (%q); use lower case letters, digits, _ and -, and none of %v",
			l.kind, s.Name, l.reserved))
	}
	t := reflect.TypeOf(s.Default)
	if t == nil || t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("optibfm: register %s %s: the section is not a struct (%v)", l.kind, s.Name, t))
	}
	for _, other := range l.sections {
		if other.Name == s.Name || t.NumField() > 0 && reflect.TypeOf(other.Default) == t {
			panic(fmt.Sprintf("optibfm: register %s %s: %s has this name or type already; register each driver once",
				l.kind, s.Name, other.Name))
		}
	}
	l.sections = append(l.sections, s)
}

// Names lists the names.
func (l *List) Names() []string {
	names := make([]string, len(l.sections))
	for i, s := range l.sections {
		names[i] = s.Name
	}
	return names
}

func (l *List) find(name string) (Section, bool) {
	i := slices.IndexFunc(l.sections, func(s Section) bool { return s.Name == name })
	if i < 0 {
		return Section{}, false
	}
	return l.sections[i], true
}

// Kind is a kind of drivers, as the type argument of [Sections].
type Kind interface {
	// List returns the list of the kind.
	List() *List
	// ChosenBy is the key beside the sections that names the chosen one.
	ChosenBy() string
	// OmitsDefault reports whether files leave out the sections that have their defaults.
	OmitsDefault() bool
}

// Sections are the sections of all drivers of a kind in a configuration. It is embedded in a
// struct: its keys are keys of that struct (keys.Holder). Copies are independent of what [Edit]
// changes.
type Sections[K Kind] struct {
	values map[string]any // pointers; a missing one has its default
}

func kindOf[K Kind]() (k K) { return k }

// Section returns the section of a driver, nil for an unknown driver.
func (s Sections[K]) Section(name string) any {
	if v, ok := s.values[name]; ok {
		return reflect.ValueOf(v).Elem().Interface()
	}
	d, _ := kindOf[K]().List().find(name)
	return d.Default
}

// Get returns the section with the type C, which must be registered.
func Get[C any, K Kind](s Sections[K]) C {
	return s.Section(nameOf[C, K]()).(C)
}

// Edit changes the section with the type C, which must be registered.
func Edit[C any, K Kind](s *Sections[K], change func(*C)) {
	name := nameOf[C, K]()
	c := s.Section(name).(C)
	change(&c)
	s.set(name, &c)
}

func nameOf[C any, K Kind]() string {
	l := kindOf[K]().List()
	for _, s := range l.sections {
		if _, ok := s.Default.(C); ok {
			return s.Name
		}
	}
	panic(fmt.Sprintf("registry: no %s has a section of type %v", l.kind, reflect.TypeFor[C]()))
}

func (s *Sections[K]) set(name string, pointer any) {
	values := maps.Clone(s.values)
	if values == nil {
		values = map[string]any{}
	}
	values[name] = pointer
	s.values = values
}

// HeldKeys implements keys.Holder. A driver without settings has no section in files.
func (s *Sections[K]) HeldKeys() (names []string) {
	for _, d := range kindOf[K]().List().sections {
		if reflect.TypeOf(d.Default).NumField() > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// Held implements keys.Holder.
func (s *Sections[K]) Held(name string) reflect.Value {
	if v, ok := s.values[name]; ok {
		return reflect.ValueOf(v).Elem()
	}
	d, _ := kindOf[K]().List().find(name)
	v := reflect.New(reflect.TypeOf(d.Default))
	v.Elem().Set(reflect.ValueOf(d.Default))
	s.set(name, v.Interface())
	return v.Elem()
}

// Detach implements keys.Holder.
func (s *Sections[K]) Detach() {
	for name, v := range s.values {
		copied := reflect.New(reflect.TypeOf(v).Elem())
		copied.Elem().Set(reflect.ValueOf(v).Elem())
		s.set(name, copied.Interface())
	}
}

// HeldDoc implements keys.Holder.
func (s *Sections[K]) HeldDoc(name string) string {
	d, _ := kindOf[K]().List().find(name)
	return d.Doc
}

// HasDefault implements keys.Holder.
func (s *Sections[K]) HasDefault(name string) bool {
	d, _ := kindOf[K]().List().find(name)
	return reflect.DeepEqual(s.Section(name), d.Default)
}

// ChosenBy implements keys.Holder.
func (s *Sections[K]) ChosenBy() string { return kindOf[K]().ChosenBy() }

// OmitsDefault implements keys.Holder.
func (s *Sections[K]) OmitsDefault() bool { return kindOf[K]().OmitsDefault() }
