//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"optibfm/internal/browsertest"
	"optibfm/internal/fatal"
)

func TestPage_ShowsThePictureThePathAndTheChannelsAtTheCursor(t *testing.T) {
	s := simulated()
	s.seen = true
	page, _ := pageOf(t, s.write(t))
	var got struct {
		Shade    int
		Note     string
		Channels string
		Inks     int // colours of the path
		Picked   string
	}
	script := `
		const text = (id) => document.getElementById(id).textContent;
		const pixels = (id) => {
			const canvas = document.getElementById(id);
			return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
		};
		const path = pixels("path"), inks = new Set();
		for (let i = 0; i < path.length; i += 4) {
			if (path[i + 3] === 255) inks.add(path.slice(i, i + 3).join());
		}
		const result = { shade: pixels("robot")[0], note: text("picture-note"), channels: text("channels"), inks: inks.size };
		const at = document.getElementById("path").getBoundingClientRect();
		const down = new PointerEvent("pointerdown", { clientX: at.left + at.width / 2, clientY: at.top + 2 });
		document.getElementById("path").dispatchEvent(down);
		return Object.assign(result, { picked: text("now") });`
	browsertest.Drive(t, page, "t=4", "1280,1000", script, &got)
	if got.Shade < 76 || got.Shade > 84 || got.Note != "of 4.000 s" { // tick 200
		t.Errorf("picture of shade %d, %q", got.Shade, got.Note)
	}
	for _, name := range append([]string{"action 2"}, poseNames...) {
		if !strings.Contains(got.Channels, name) {
			t.Errorf("channels %q lack %s", got.Channels, name)
		}
	}
	if got.Inks < 4 || strings.HasPrefix(got.Picked, "4.00") || !strings.Contains(got.Picked, "tick 15") {
		t.Errorf("%d colours in the path; a press at its top moves the cursor to %q", got.Inks, got.Picked)
	}
}

func TestWrite_LimitsThePicturesInThePage(t *testing.T) {
	s := simulated()
	s.seen = true
	log := s.write(t)
	for limit, want := range map[int]int{maxPictureBytes: 1, 12_000: 2} {
		found := readPictures(open(t, log), limit)
		if n := (found.of + want - 1) / want; len(found.all) != n || found.of < 50 || len(found.problems) > 0 {
			t.Errorf("at most %d bytes: %d of %d pictures, want %d", limit, len(found.all), found.of, n)
		}
	}
}

func TestWrite_PicturesThatCannotBeReadAreANotice(t *testing.T) {
	s := simulated()
	s.seen = true
	log := s.write(t)
	file := open(t, log).PictureFiles()[0]
	fatal.If(t, os.Truncate(file, 20))
	page, made := pageOf(t, log)
	if !made.Replay.OK() || !bytes.Contains(page, []byte("The log is not affected")) {
		t.Errorf("verified %v, notice %v", made.Replay.OK(), bytes.Contains(page, []byte("view-001")))
	}
	fatal.If(t, os.Remove(file))
	var d data
	page, _ = pageOf(t, log)
	fatal.If(t, json.Unmarshal(embedded(t, page), &d))
	if len(d.Pictures.JPEG) > 0 || bytes.Contains(page, []byte("is not affected")) {
		t.Errorf("%d pictures without a file", len(d.Pictures.JPEG))
	}
}
