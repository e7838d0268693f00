//go:build linux

package tasks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/errtest"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/flightlog/report"
	"optibfm/internal/browsertest"
	"optibfm/internal/fatal"
)

func metadataOf(t *testing.T, log string) flightlog.Metadata {
	t.Helper()
	r, err := flightlog.Open(log)
	fatal.If(t, err)
	defer r.Close()
	return r.Metadata()
}

func TestForPage_ReturnsTheMomentsOfPropose(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "operator.scripted.reward_high=2", "operator.scripted.reward_low=-3")
	rows, _ := propose(t, log, maxPageProposed)
	l := ForPage(log, metadataOf(t, log))
	if l.Good != 2 || l.Bad != -3 || l.Neutral != -0.5 || l.Refused != "" || len(l.Proposed) != len(rows)-1 {
		t.Fatalf("%+v, want %d moments", l, len(rows)-1)
	}
	for i, p := range l.Proposed {
		want := strings.Split(rows[i+1], ",")
		if fmt.Sprint(p.Tick) != want[1] || fmt.Sprintf("%.3f %.3f", p.Gain, p.Expected) != want[2]+" "+want[3] {
			t.Errorf("moment %d: %+v, want %q", i, p, want)
		}
	}
	another := metadataOf(t, log)
	another.Config = []byte("of: another version")
	if got := ForPage(log, another); got.Good != l.Good || got.Bad != l.Bad || got.Neutral != l.Neutral {
		t.Errorf("with a configuration of another version: %+v", got)
	}
}

func TestForPage_ReturnsWhyALogCannotBeLabelled(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	meta := metadataOf(t, log)
	set := func(flag controller.Flags) string {
		return rewrite(t, log, func(tick *controller.Tick) { tick.Flags |= flag })
	}
	for want, path := range map[string]string{
		"damaged":                           damage(t, log),
		"no tick that a label can be about": set(controller.FlagStopped),
		"no such file":                      filepath.Join(t.TempDir(), "none.mcap"),
		"replay":                            rewrite(t, log, func(tick *controller.Tick) { tick.Hash++ }),
	} {
		l := ForPage(path, meta)
		if !strings.Contains(l.Refused, want) || len(l.Proposed) > 0 || l.Good != 1 || l.Bad != -1 {
			t.Errorf("%s: %+v", want, l)
		}
	}
}

// TestLabel_ReadsTheFileOfThePage labels a log in its page and applies the file that the page
// saves.
func TestLabel_ReadsTheFileOfThePage(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "operator.source=none")
	r, err := flightlog.Open(log)
	fatal.If(t, err)
	defer r.Close()
	l := ForPage(log, r.Metadata())
	var page bytes.Buffer
	fatal.If(t, errtest.Of(report.Write(&page, r, log, &l)))
	var text string
	browsertest.Drive(t, page.Bytes(), "", "1280,900", `
		let text = "";
		window.Blob = class { constructor(parts) { text = parts.join(""); } };
		URL.createObjectURL = () => "#";
		HTMLAnchorElement.prototype.click = () => {};
		const press = (...keys) => keys.forEach((key) => document.dispatchEvent(new KeyboardEvent("keydown", { key })));
		Array.from("+-2").forEach((key, i) => {
			document.getElementById("proposed").children[i].click();
			press(key);
		});
		press("Home", "PageDown", "ArrowRight", "ArrowRight", "0");
		document.getElementById("save-labels").click();
		return text;`, &text)
	rows, empty, err := parseMoments([]byte(text), scale{1, 0})
	fatal.If(t, err)
	got, want := map[uint64]float64{}, map[uint64]float64{
		l.Proposed[0].Tick: 1, l.Proposed[1].Tick: 0, l.Proposed[2].Tick: 0.125, 22: 0.5, // 1 s and two ticks
	}
	for _, row := range rows {
		got[row.tick] = row.value
	}
	if empty != 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("labels %v, want %v, from\n%s", got, want, text)
	}
	file := filepath.Join(t.TempDir(), "moments.csv")
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
	var out bytes.Buffer
	fatal.If(t, Label(&out, b.Options, New{Name: "turn"}, log, file))
	if !strings.Contains(out.String(), "4 applied, 0 refused") {
		t.Error(out.String())
	}
	other := b.record(t, "operator.source=none", "robot.rover.seed=2")
	errtest.Contains(t, Label(&out, b.Options, New{Name: "other"}, other, file), "another state in the log")
}
