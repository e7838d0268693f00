package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/flightlog/flightlogtest"
	"optibfm/internal/fatal"
)

// lead is the opcode and the offset of a record in a log.
type lead struct {
	op mcap.OpCode
	at int
}

// leads lists the records of a complete log.
func leads(log []byte) (found []lead) {
	for at := len(mcap.Magic); at+recordLead <= len(log); {
		found = append(found, lead{mcap.OpCode(log[at]), at})
		at += recordLead + int(binary.LittleEndian.Uint64(log[at+1:]))
	}
	return found
}

// nth returns the offset of a record. A negative n counts from the end.
func nth(log []byte, op mcap.OpCode, n int) int {
	all := slices.DeleteFunc(leads(log), func(l lead) bool { return l.op != op })
	if n < 0 {
		n += len(all)
	}
	return all[n].at
}

// killed returns a log without its end, as after kill -9 between two chunks.
func killed(log []byte) []byte { return bytes.Clone(log[:nth(log, mcap.OpDataEnd, 0)]) }

// allTicks is the number of ticks of the log in the tests of damage.
const allTicks = 60

// damageCase is a changed log.
type damageCase struct {
	log     []byte
	damage  string // part of its text, "" for none
	cut     bool
	atLeast int // readable ticks
}

func (c damageCase) check(t *testing.T) {
	r, err := NewReader(bytes.NewReader(c.log), int64(len(c.log)))
	fatal.If(t, err)
	damage := r.Damage()
	if (len(damage) > 0) != (c.damage != "") || len(damage) > 0 && !strings.Contains(damage[0].Error(), c.damage) {
		t.Errorf("damage %v, want %q", damage, c.damage)
	}
	if (r.Cut() != nil) != c.cut {
		t.Errorf("cut %+v", r.Cut())
	}
	ticks := make(map[uint64]bool)
	for record, err := range r.Records() {
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if err != nil || record.Tick == nil {
			continue
		}
		if ticks[record.Tick.Index] {
			t.Errorf("tick %d occurs twice", record.Tick.Index)
		}
		ticks[record.Tick.Index] = true
	}
	if len(ticks) < c.atLeast {
		t.Errorf("%d readable ticks, want %d of %d", len(ticks), c.atLeast, allTicks)
	}
}

func TestReader_FindsNoDamageInACutLog(t *testing.T) {
	whole, _ := smallLog(t, allTicks, Options{})
	dead := killed(whole)
	chunk := func(n int) int { return nth(whole, mcap.OpChunk, n) }
	index := func(n int) int { return nth(whole, mcap.OpMessageIndex, n) }
	for name, c := range map[string]damageCase{
		"whole":                           {whole, "", false, allTicks},
		"killed":                          {dead, "", true, allTicks},
		"killed within a chunk":           {whole[:chunk(3)+700], "", true, 20},
		"killed within a message index":   {whole[:index(-1)+20], "", true, allTicks},
		"killed within the summary":       {whole[:len(whole)-200], "", true, allTicks},
		"killed within the last magic":    {whole[:len(whole)-3], "", true, allTicks},
		"zeros after a kill":              {slices.Concat(dead, make([]byte, 5000)), "", true, allTicks},
		"zeros in the last chunk":         {zeroed(dead, chunk(-1)+300), "", true, 40},
		"zeros in the last message index": {zeroed(dead, index(-1)+12), "", true, allTicks},
	} {
		t.Run(name, c.check)
	}
}

func TestReader_FindsDamage(t *testing.T) {
	whole, _ := smallLog(t, allTicks, Options{})
	dead := killed(whole)
	chunk := func(n int) int { return nth(whole, mcap.OpChunk, n) }
	index := func(n int) int { return nth(whole, mcap.OpMessageIndex, n) }
	find := func(text string) int { return bytes.Index(dead, []byte(text)) }
	end, schema := nth(whole, mcap.OpDataEnd, 0), nth(whole, mcap.OpSchema, 0)
	chunkIndex := nth(whole, mcap.OpChunkIndex, 1)
	repeated := slices.Concat(dead[:chunk(3)], dead[chunk(2):])
	sum := bytes.LastIndex(dead, []byte(preambleName))
	for name, c := range map[string]damageCase{
		"a bit of a chunk":                   {flip(whole, chunk(2)+200), "checksum of a chunk", false, 40},
		"a bit of the last chunk":            {flip(whole, chunk(-1)+200), "checksum of a chunk", false, 40},
		"a bit of the last chunk, killed":    {flip(dead, chunk(-1)+200), "checksum of a chunk", true, 40},
		"a chunk's length, killed":           {flip(dead, chunk(2)+4), "claims", true, 40},
		"the last chunk's length, killed":    {flip(dead, chunk(-1)+3), "claims", true, 40},
		"a chunk's opcode, killed":           {flip(dead, chunk(2)), "no record", true, 40},
		"a bit of a message index":           {flip(whole, index(2)+18), "message index", false, allTicks},
		"a bit of a message index, killed":   {flip(dead, index(2)+18), "message index", true, allTicks},
		"a bit of the last index, killed":    {flip(dead, index(-1)+18), "message index", true, allTicks},
		"a bit of the data end":              {flip(whole, end+recordLead), "data section", false, allTicks},
		"a bit of the summary":               {flip(whole, chunkIndex+20), "summary", false, allTicks},
		"a bit of the footer":                {flip(whole, len(whole)-20), "summary", false, allTicks},
		"a bit of the last magic":            {flip(whole, len(whole)-2), "summary", false, allTicks},
		"bytes after the end":                {slices.Concat(whole, []byte("more")), "summary", false, allTicks},
		"a bit of the metadata, killed":      {flip(dead, find("abc")), "checksum of the metadata", true, allTicks},
		"a bit of the configuration, killed": {flip(dead, find("robot: testbot")), "checksum", true, allTicks},
		"the checksum's name, killed":        {flip(dead, sum), "is missing", true, allTicks},
		"a bit of a schema, killed":          {flip(dead, schema+60), "checksum of the metadata", true, allTicks},
		"a missing chunk, killed":            {without(dead, chunk(2), chunk(3)), "missing", true, 40},
		"a missing chunk":                    {without(whole, chunk(2), chunk(3)), "missing", false, 40},
		"a cut before the last magic":        {slices.Concat(whole[:chunk(-1)+300], mcap.Magic), "claims", false, 40},
		"a chunk twice, killed":              {repeated, "twice", true, allTicks},
		"zeros before a chunk":               {zeroedTo(dead, chunk(2)+99, chunk(3)), "a chunk", true, 40},
		"the first chunk's length, killed":   {flip(dead, chunk(0)+1), "lengths", true, 40},
	} {
		t.Run(name, c.check)
	}
}

func flip(log []byte, at int) []byte {
	log = bytes.Clone(log)
	log[at] ^= 0x10
	return log
}

// without returns the log without some bytes.
func without(log []byte, from, to int) []byte { return slices.Concat(log[:from], log[to:]) }

func zeroed(log []byte, from int) []byte { return zeroedTo(log, from, len(log)) }

func zeroedTo(log []byte, from, to int) []byte {
	log = bytes.Clone(log)
	clear(log[from:to])
	return log
}

func TestReader_OpenLogIsNotDamaged(t *testing.T) {
	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	for i := range uint64(20) {
		fatal.If(t, w.WriteTick(randomTick(testShape, i)))
		fatal.If(t, w.WriteLabel(testLabel(i+1)))
		if r := open(t, path); r.Cut() == nil || len(r.Damage()) > 0 {
			t.Fatalf("after tick %d: cut %v, damage %v", i, r.Cut(), r.Damage())
		}
	}
	fatal.If(t, w.Close())
}

func TestRecover_MarksTheCopyOfADamagedLog(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 600, Every: 100}.run(t)
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, flip(log, nth(log, mcap.OpChunk, 5)+300), 0o600))
	out := filepath.Join(t.TempDir(), "copy.mcap")
	saved, err := Recover(path, out)
	fatal.If(t, err)
	r := open(t, out)
	mark := r.Metadata().Extra[KeyRecovered]
	if len(saved.Damage) != 1 || len(r.Damage()) > 0 || !strings.Contains(mark, "checksum of a chunk") {
		t.Errorf("damage %v, then %v; metadata %v", saved.Damage, r.Damage(), r.Metadata().Extra)
	}
}

func TestReader_RewrittenLogIsNotDamaged(t *testing.T) {
	log, _ := smallLog(t, 60, Options{})
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	fatal.If(t, err)
	for _, checksums := range []bool{true, false} {
		var out bytes.Buffer
		opts := mcap.WriterOptions{IncludeCRC: checksums, Chunked: true, ChunkSize: 1 << 14, OverrideLibrary: true}
		w, err := mcap.NewWriter(&out, &opts)
		fatal.If(t, err)
		fatal.If(t, w.WriteHeader(&mcap.Header{Library: "another program"}))
		fatal.If(t, (&records{Writer: w}).declare(logChannels, namedChannels{}))
		kv, err := r.meta.encode()
		fatal.If(t, err)
		if checksums { // the metadata as it is in the log
			kv[keyPreamble] = "in " + preambleName
			old := map[string]string{keyPreamble: "00000000"}
			fatal.If(t, w.WriteMetadata(&mcap.Metadata{Name: preambleName, Metadata: old}))
		}
		fatal.If(t, w.WriteMetadata(&mcap.Metadata{Name: metadataName, Metadata: kv}))
		fatal.If(t, r.copyAttachments(w))
		for record, err := range r.Records() {
			fatal.If(t, err)
			m := mcap.Message{ChannelID: uint16(record.channel + 1), LogTime: record.LogTime, Data: record.data}
			fatal.If(t, w.WriteMessage(&m))
		}
		fatal.If(t, w.Close())
		rewritten, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		fatal.If(t, err)
		if damage := rewritten.Damage(); len(damage) > 0 || rewritten.Cut() != nil {
			t.Errorf("checksums %v: damage %v, cut %v", checksums, damage, rewritten.Cut())
		}
	}
}
