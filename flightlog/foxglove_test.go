package flightlog

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"optibfm/flightlog/flightlogpb"
)

// foxgloveLayout is what matters here of a layout file of Foxglove.
type foxgloveLayout struct {
	Panels map[string]struct {
		Paths     []struct{ Value string } `json:"paths"`
		TopicPath string                   `json:"topicPath"`
	} `json:"configById"`
	Layout any `json:"layout"`
}

func TestEveryPathOfTheFoxgloveLayoutIsAFieldOfTheLog(t *testing.T) {
	content, err := os.ReadFile("../docs/foxglove-layout.json")
	must(t, err)
	var layout foxgloveLayout
	must(t, json.Unmarshal(content, &layout))
	placed := panels(layout.Layout)
	for name, panel := range layout.Panels {
		if !placed[name] {
			t.Errorf("%s has no place in the layout", name)
		}
		if panel.TopicPath != "" {
			checkPath(t, panel.TopicPath)
		}
		for _, path := range panel.Paths {
			checkPath(t, path.Value)
		}
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
	messages := map[string]protoreflect.MessageDescriptor{
		TopicTick: (*flightlogpb.Tick)(nil).ProtoReflect().Descriptor(), TopicLabel: (*flightlogpb.Label)(nil).ProtoReflect().Descriptor(),
		TopicRequest: (*flightlogpb.Request)(nil).ProtoReflect().Descriptor(), TopicPlan: (*flightlogpb.Plan)(nil).ProtoReflect().Descriptor(),
		TopicEvent: (*flightlogpb.Event)(nil).ProtoReflect().Descriptor(), TopicTiming: (*flightlogpb.Timing)(nil).ProtoReflect().Descriptor(),
	}
	topic, fields, _ := strings.Cut(path, ".")
	message := messages[topic]
	if message == nil {
		t.Errorf("%s: no such topic", path)
		return
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
