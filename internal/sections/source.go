package sections

import (
	"fmt"

	"optibfm/rewardsrc"
)

// SourceKind is the kind of drivers of label devices: sections of operator, chosen by
// operator.source.
type SourceKind struct{}

var sourceList = NewList("label device",
	"source", "label_mode", "scripted", "keyboard", "console", "web", "view", "remote", "suggestions", "none")

// List implements Kind.
func (SourceKind) List() *List { return sourceList }

// ChosenBy implements Kind.
func (SourceKind) ChosenBy() string { return "source" }

// OmitsDefault implements Kind.
func (SourceKind) OmitsDefault() bool { return false }

var sources = map[string]func(any, func(rewardsrc.Notice)) (rewardsrc.Source, error){}

// AddSource registers a driver of a label device. open may call notice from any goroutine to show
// the operator a message, such as a lost device.
func AddSource[C any](
	name, doc string, defaults C, open func(c C, notice func(rewardsrc.Notice)) (rewardsrc.Source, error),
) {
	sourceList.Add(Section{Name: name, Doc: doc, Default: defaults})
	sources[name] = func(section any, notice func(rewardsrc.Notice)) (rewardsrc.Source, error) {
		source, err := open(section.(C), notice)
		if err != nil { // source may be a nil pointer in an interface
			return nil, err
		}
		return source, nil
	}
}

// OpenSource opens a registered label device.
func OpenSource(name string, section any, notice func(rewardsrc.Notice)) (rewardsrc.Source, error) {
	open, ok := sources[name]
	if !ok {
		return nil, fmt.Errorf("operator.source: unknown (%q); use one of %v", name, sourceList.Names())
	}
	return open(section, notice)
}

// Bound is implemented by sections that must name a device before their source is chosen.
type Bound interface{ Bound() error }

// Streaming is implemented by sections of devices that may give a stream of labels while a control
// is held.
type Streaming interface{ Streams() bool }

// Scaled is implemented by sections with the values of good and bad.
type Scaled interface{ Scale() (good, bad float64) }
