package report

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const hostileName = `<script>document.body.dataset.pwned=1</script>`

// hostile is a run whose names look like markup.
func hostile() simulation {
	s := simulated()
	s.Ticks, s.name, s.fault = 60, hostileName, 40
	s.events = []flightlog.Event{{
		Level: flightlog.Warn, Text: `</script><img src=x onerror="document.body.dataset.pwned=1">`,
		Fields: map[string]string{"<b>": `"'><svg onload=document.body.dataset.pwned=1>`},
	}}
	return s
}

// skeleton returns a page without the style, the script and the contents of the data.
// The shape of the data stays.
func skeleton(t *testing.T, page []byte) []byte {
	t.Helper()
	var d any
	fatal.If(t, json.Unmarshal(embedded(t, page), &d))
	var shape bytes.Buffer
	describe(&shape, "", d)
	replace := func(pattern, with string) {
		page = regexp.MustCompile(pattern).ReplaceAllLiteral(page, []byte(with))
	}
	replace(`(?s)id="data">.*?</script>`, "id=\"data\">\n"+shape.String()+"</script>")
	replace(`(?s)<style>.*</style>`, "<style></style>")
	replace(`(?s)<script>"use strict".*?</script>`, "<script></script>")
	replace(`sha256-.*?&#39;`, "sha256-&#39;")
	return page
}

// describe writes the shape of a JSON value.
func describe(out *bytes.Buffer, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			describe(out, path+"."+key, v[key])
		}
	case []any:
		fmt.Fprintf(out, "%s: %d entries\n", path, len(v))
	case string:
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil && len(v)%4 == 0 && len(v) > 12 {
			fmt.Fprintf(out, "%s: %d bytes\n", path, len(raw))
			return
		}
		fmt.Fprintf(out, "%s: %q\n", path, v)
	default:
		fmt.Fprintf(out, "%s: %v\n", path, v)
	}
}

func TestWrite_MatchesGoldenFile(t *testing.T) {
	page, _ := labelPageOf(t, hostile().write(t), labelling())
	got := skeleton(t, page)
	golden := filepath.Join("testdata", "page.golden")
	if *update {
		fatal.If(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	fatal.If(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("the page differs from %s; after a deliberate change: go test ./flightlog/report -update\n%s",
			golden, firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, a[i], b[i])
		}
	}
	return "one is longer"
}

func TestWrite_LoadsNothing(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	for _, forbidden := range []string{
		"http://", "https://", " src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import(",
		"sendBeacon", "eval(",
	} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	for _, wanted := range []string{"default-src &#39;none&#39;", "script-src &#39;sha256-"} {
		if !bytes.Contains(page, []byte(wanted)) {
			t.Errorf("the page's policy lacks %q", wanted)
		}
	}
}

func TestWrite_EscapesNames(t *testing.T) {
	page, _ := pageOf(t, hostile().write(t))
	if n := bytes.Count(page, []byte("<script")); n != 2 {
		t.Errorf("%d scripts, want the data and the program", n)
	}
	if bytes.Contains(page, []byte("<img")) || bytes.Contains(page, []byte("<svg")) {
		t.Error("an event's text is markup")
	}
}

func TestWrite_ReportsCutAndDamage(t *testing.T) {
	log, err := os.ReadFile(simulated().write(t))
	fatal.If(t, err)
	damaged := bytes.Clone(log)
	for i := range 64 {
		damaged[len(log)/2+i] ^= 0x5a
	}
	for name, c := range map[string]struct {
		log  []byte
		want []string
	}{
		"cut": {log[:len(log)*2/3], []string{"was never closed", "the last tick is", "log recover"}},
		"damaged": {damaged, []string{
			"Not verified: the log is DAMAGED", "Log damaged from byte", "periods have no record",
			"Belief: not verified from tick",
		}},
	} {
		r, err := flightlog.NewReader(bytes.NewReader(c.log), int64(len(c.log)))
		fatal.If(t, err)
		var page bytes.Buffer
		fatal.If(t, errtest.Of(Write(&page, r, name+".mcap", nil)))
		for _, want := range c.want {
			if !bytes.Contains(page.Bytes(), []byte(want)) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
	}
}

func TestWrite_AcceptsLogsWithoutTicksOrSnapshots(t *testing.T) {
	s := simulated()
	s.Ticks = 0
	page, made := pageOf(t, s.write(t))
	if made.Settings != 0 || !bytes.Contains(page, []byte("holds no ticks")) {
		t.Errorf("no ticks: %d settings", made.Settings)
	}
	s = simulated()
	s.blind = true
	page, made = pageOf(t, s.write(t))
	if made.Settings != 0 || made.Unverified == nil || !bytes.Contains(page, []byte("Not verified: ")) {
		t.Errorf("no snapshots: %d settings, unverified: %v", made.Settings, made.Unverified)
	}
}

func TestVerdict_ShowsTheFirstDifference(t *testing.T) {
	c := &collected{summary: flightlog.Summary{Counts: flightlog.Counts{Ticks: 9}}}
	b := &believed{result: flightlog.Result{
		Verified: 9, Differing: 2, First: &flightlog.Difference{Tick: 4, Field: "hash", Logged: "a", Computed: "b"},
	}}
	b.result.Summary.Ticks = 9
	got := verdict(c, b)
	if got.Grade != "bad" || !strings.Contains(got.Text, "2 DIFFER") || !strings.Contains(got.Text, "tick 4: hash") {
		t.Errorf("verdict %+v", got)
	}
}

func TestRunRows_NameTheCauseOfTheEnd(t *testing.T) {
	for end, want := range map[string]row{
		"": {"Faults", []string{"none"}}, "host failed: silence": {"Ended by", []string{"host failed: silence"}},
	} {
		rows := runRows(&collected{summary: flightlog.Summary{End: end}})
		if got := rows[len(rows)-1]; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: the last row is %v, want %v", end, got, want)
		}
	}
}

func TestColumn_KeepsSpikes(t *testing.T) {
	n := 3 * maxPoints
	x := make([]float64, n)
	x[1000], x[200_000], x[300_000] = 9, -7, math.NaN()
	size := bucket(n, maxPoints)
	got := unpack[float32](t, column(x, size))
	if len(got) > maxPoints || len(got) != 2*((n+size-1)/size) {
		t.Fatalf("%d values for %d, %d a bucket", len(got), n, size)
	}
	if got[2*(1000/size)+1] != 9 || got[2*(200_000/size)] != -7 {
		t.Error("a spike is lost")
	}
	if v := got[2*(300_000/size)]; v != v {
		t.Error("a NaN hides its bucket")
	}
}

// unpack is the inverse of pack.
func unpack[T any](t *testing.T, p packed) []T {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(string(p))
	fatal.If(t, err)
	var zero T
	out := make([]T, len(raw)/binary.Size(zero))
	fatal.If(t, errtest.Of(binary.Decode(raw, binary.LittleEndian, out)))
	return out
}

func TestCollected_TimesBeginAtATickWithoutASample(t *testing.T) {
	const boot = int64(100 * time.Hour)
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 1}
	c := &collected{channels: newChannelRows(2, 2), lastZ: make([]float64, 1)}
	for i, sample := range []int64{0, boot + 2*int64(time.Second)} {
		tick := controller.NewTick(shape)
		tick.Index, tick.Wake, tick.SenseAt = uint64(i), boot+int64(i)*int64(time.Second), sample
		c.addTick(tick)
	}
	if !slices.Equal(c.columns.time, []float64{0, 2}) {
		t.Fatalf("times %v", c.columns.time)
	}
}
