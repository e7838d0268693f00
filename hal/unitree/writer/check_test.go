package writer

import (
	"strings"
	"testing"

	"optibfm/hal/unitree"
)

// TestCheckWriters_JudgesAsTheWriterDoes has another writer of commands.
func TestCheckWriters_JudgesAsTheWriterDoes(t *testing.T) {
	for _, c := range []struct {
		others string
		sent   bool
		ok     bool
	}{
		{unitree.Refuse, false, false},
		{unitree.Silent, false, true},
		{unitree.Silent, true, false},
	} {
		config := unitree.Config{Model: unitree.Go2, Interface: "eth0", Library: "/opt/dds", OtherWriters: c.others}
		found := checkWriters(nil, config, end{&fake{foreign: 1, sent: c.sent}, false})
		if len(found) != 1 || found[0].OK != c.ok {
			t.Errorf("%s, sent %v: %+v", c.others, c.sent, found)
		}
		const release = "release -interface eth0 -model go2 -library /opt/dds;"
		if !c.ok && !strings.Contains(found[0].Fix, release) {
			t.Errorf("the fix %q has not %q", found[0].Fix, release)
		}
	}
}
