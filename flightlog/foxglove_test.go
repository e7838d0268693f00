package flightlog

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"optibfm/internal/fatal"
)

// foxgloveLayout is the part of a Foxglove layout file with paths.
type foxgloveLayout struct {
	Panels map[string]struct {
		Paths     []struct{ Value string } `json:"paths"`
		TopicPath string                   `json:"topicPath"`
		ImageMode struct{ ImageTopic string }
	} `json:"configById"`
	Layout any `json:"layout"`
}

func TestFoxgloveLayout_HasOnlyFieldsOfTheLog(t *testing.T) {
	content, err := os.ReadFile("../docs/foxglove-layout.json")
	fatal.If(t, err)
	var layout foxgloveLayout
	fatal.If(t, json.Unmarshal(content, &layout))
	placed := panels(layout.Layout)
	var shown []string // images
	for name, panel := range layout.Panels {
		if !placed[name] {
			t.Errorf("%s has no place in the layout", name)
		}
		if panel.TopicPath != "" {
			checkPath(t, panel.TopicPath)
		}
		if topic := panel.ImageMode.ImageTopic; topic != "" {
			checkPath(t, topic)
			shown = append(shown, topic)
		}
		for _, path := range panel.Paths {
			checkPath(t, path.Value)
		}
	}
	if !slices.Equal(shown, []string{TopicView}) {
		t.Errorf("images of %q", shown)
	}
	for name := range placed {
		if _, ok := layout.Panels[name]; !ok {
			t.Errorf("%s is placed and not configured", name)
		}
	}
}

// panels returns the names at the leaves of a layout.
func panels(node any) map[string]bool {
	found := make(map[string]bool)
	switch node := node.(type) {
	case string:
		found[node] = true
	case map[string]any:
		for _, side := range []string{"first", "second"} {
			for name := range panels(node[side]) {
				found[name] = true
			}
		}
	}
	return found
}

func checkPath(t *testing.T, path string) {
	t.Helper()
	name, fields, _ := strings.Cut(path, ".")
	var message protoreflect.MessageDescriptor
	for _, topic := range topics {
		if topic.name == name {
			message = topic.message.ProtoReflect().Descriptor()
		}
	}
	if message == nil {
		t.Errorf("%s: no such topic", path)
		return
	}
	if name == TopicTick && fields == "commanded" {
		return // of the channels, see namedChannels
	}
	for _, name := range strings.Split(fields, ".") {
		if name == "" {
			return
		}
		plain := regexp.MustCompile(`\[[0-9:]*\]$`).ReplaceAllString(name, "")
		field := message.Fields().ByName(protoreflect.Name(plain))
		if field == nil || field.IsList() != (plain != name) {
			t.Errorf("%s: %s has no field %s", path, message.Name(), name)
			return
		}
		message = field.Message()
	}
}
