package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/internal/fatal"
)

// original is a log with the names of its messages, as they were written.
type original struct {
	log      []byte
	chunks   []written
	preamble int // length
	closed   bool
}

// written is a chunk with its message indexes.
type written struct {
	from, to int
	names    []string
}

// record returns the chunk without its indexes.
func (c written) record(log []byte) []byte {
	return log[c.from : c.from+recordLead+int(binary.LittleEndian.Uint64(log[c.from+1:]))]
}

// writeOriginal writes a log with ticks, labels and a snapshot.
func writeOriginal(t testing.TB, ticks uint64, compress bool) original {
	t.Helper()
	w, path := create(t, testMetadata(testShape), Options{NoSync: true, Compress: compress})
	o := original{preamble: int(w.Stats().Bytes), closed: true}
	size, names := o.preamble, []string{"/snapshot"}
	fatal.If(t, w.WriteSnapshot(Snapshot{State: make([]float64, testShape.StateLen()), Hash: 1}))
	for i := range ticks {
		fatal.If(t, w.WriteTick(randomTick(testShape, i)))
		names = append(names, fmt.Sprint("/tick ", i))
		if i%11 == 5 {
			fatal.If(t, w.WriteLabel(testLabel(i)))
			names = append(names, fmt.Sprint("/label ", i))
		} else if i%4 == 3 {
			fatal.If(t, w.Flush())
		}
		if to := int(w.Stats().Bytes); to > size {
			o.chunks = append(o.chunks, written{size, to, names})
			size, names = to, nil
		}
	}
	fatal.If(t, w.Close())
	var err error
	o.log, err = os.ReadFile(path)
	fatal.If(t, err)
	return o
}

// end returns the end of the last chunk.
func (o original) end() int { return o.chunks[len(o.chunks)-1].to }

// killed returns a log without its end.
func (o original) killed(lost int) original {
	o.log, o.closed = o.log[:o.end()-lost], false
	if lost > 0 {
		o.chunks = o.chunks[:len(o.chunks)-1]
	}
	return o
}

// block chooses where a log is damaged.
func (o original) block(log []byte, rng *rand.Rand) (from, to int) {
	n := 1 + rng.IntN(4096)
	switch rng.IntN(4) {
	case 0:
		from = rng.IntN(o.preamble)
	case 1:
		from = max(0, len(log)-1-rng.IntN(2048))
	case 2:
		from = rng.IntN(len(log)/512) * 512
		n = []int{512, 4096}[rng.IntN(2)]
	default:
		c := o.chunks[rng.IntN(len(o.chunks))]
		from, n = c.from, c.to-c.from
	}
	from = min(from, len(log)-1)
	return from, min(from+n, len(log))
}

// damages change the bytes of a log from an offset to another.
var damages = map[string]func(log []byte, from, to int, rng *rand.Rand) []byte{
	"bit": func(log []byte, from, to int, rng *rand.Rand) []byte {
		log[from+rng.IntN(min(40, to-from))] ^= 1 << rng.IntN(8)
		return log
	},
	"noise": func(log []byte, from, to int, rng *rand.Rand) []byte {
		for i := range log[from:to] {
			log[from+i] = byte(rng.Uint32())
		}
		return log
	},
	"zeros": func(log []byte, from, to int, _ *rand.Rand) []byte { clear(log[from:to]); return log },
	"cut":   func(log []byte, from, _ int, _ *rand.Rand) []byte { return log[:from] },
	"tail": func(log []byte, from, to int, _ *rand.Rand) []byte {
		clear(log[from:])
		return append(log, make([]byte, to)...)
	},
	"deleted": func(log []byte, from, to int, _ *rand.Rand) []byte { return slices.Delete(log, from, to) },
	"twice":   func(log []byte, from, to int, _ *rand.Rand) []byte { return slices.Concat(log[:to], log[from:]) },
	"copied": func(log []byte, from, to int, rng *rand.Rand) []byte {
		copy(log[rng.IntN(len(log)):], bytes.Clone(log[from:to]))
		return log
	},
	"moved": func(log []byte, from, to int, rng *rand.Rand) []byte {
		block, log := bytes.Clone(log[from:to]), slices.Delete(log, from, to)
		return slices.Insert(log, rng.IntN(len(log)+1), block...)
	},
	"more": func(log []byte, from, to int, _ *rand.Rand) []byte { return append(log, bytes.Clone(log[from:to])...) },
}

// damagesVariable sets the number of damaged logs.
const damagesVariable = "OPTIBFM_DAMAGES"

// TestReader_FindsEveryDamage damages logs in the ways of disks, file systems and programs, once or
// twice. The reader must return all messages of the chunks whose bytes are still in the file, each
// once. It may take a changed log for undamaged only as a cut one that lost what a truncation at
// the first changed byte loses.
func TestReader_FindsEveryDamage(t *testing.T) {
	plain, packed := writeOriginal(t, 60, false), writeOriginal(t, 60, true)
	logs := []original{plain, packed, plain.killed(0), packed.killed(0), plain.killed(900)}
	kinds := slices.Sorted(maps.Keys(damages))
	counts := make(map[string]int)
	rng := rand.New(rand.NewPCG(2026, 11))
	for i := range number(damagesVariable, 1000, 300) {
		o := logs[i%len(logs)]
		kind := kinds[i/len(logs)%len(kinds)]
		from, to := o.block(o.log, rng)
		log := damages[kind](bytes.Clone(o.log), from, to, rng)
		if i%4 == 3 && len(log) > 1000 {
			second := kinds[rng.IntN(len(kinds))]
			from, to = o.block(log, rng)
			log, kind = damages[second](log, from, to, rng), kind+", "+second
		}
		counts[o.check(t, fmt.Sprintf("%d: %s of log %d", i, kind, i%len(logs)), log, i%4 == 3, i%50 == 0)]++
	}
	t.Logf("%d damaged logs: %v", number(damagesVariable, 1000, 300), counts)
}

// No chunk follows that shows that the bytes were once complete.
func TestReader_FindsEveryBitInTheLastChunkOfAKilledLog(t *testing.T) {
	o := writeOriginal(t, 12, false).killed(0)
	last := o.chunks[len(o.chunks)-1]
	rng := rand.New(rand.NewPCG(5, 5))
	for at := last.from; at < last.to; at++ {
		if at == last.from+64 { // the messages have one checksum
			at += len(last.record(o.log)) - 72
		}
		log := bytes.Clone(o.log)
		log[at] ^= 1 << rng.IntN(8)
		o.check(t, fmt.Sprint("byte ", at), log, false, false)
	}
}

// check compares what the Reader finds in a damaged log with the original.
func (o original) check(t *testing.T, name string, log []byte, twice, copy bool) string {
	t.Helper()
	first := 0
	for first < min(len(log), len(o.log)) && log[first] == o.log[first] {
		first++
	}
	changed, sameLength := !bytes.Equal(log, o.log), len(log) == len(o.log)
	zeros := len(bytes.Trim(log[first:], "\x00")) == 0
	var kept, before []string // messages still in the file, and before the first change
	for _, c := range o.chunks {
		if bytes.Contains(log, c.record(o.log)) {
			kept = append(kept, c.names...)
		}
		if c.from+len(c.record(o.log)) <= first {
			before = append(before, c.names...)
		}
	}
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		if first >= len(mcap.Magic) && len(kept) > 0 || !errors.Is(err, ErrNotALog) && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %d messages are readable, and NewReader returns %v", name, len(kept), err)
		}
		return "refused"
	}
	defer func() { _ = r.Close() }()
	found, err := messages(r)
	if err == nil && r.Damage() != nil {
		err = r.Damage()[0]
	}
	slices.Sort(kept)
	slices.Sort(before)
	if unique := slices.Compact(slices.Clone(found)); len(unique) < len(found) {
		t.Errorf("%s: messages occur twice: %q", name, found)
	}
	lost := slices.DeleteFunc(kept, func(name string) bool { return slices.Contains(found, name) })
	if len(lost) > 0 {
		t.Errorf("%s: %q are lost; damage %v", name, lost, err)
	}
	if copy {
		checkCopy(t, name, log, r, found)
	}
	var damage *DamageError
	switch {
	case errors.As(err, &damage):
		if interrupted := zeros && first >= o.preamble; !changed || interrupted || damage.Offset > int64(first) {
			t.Errorf("%s: changed %v from byte %d, interrupted %v: %v", name, changed, first, interrupted, err)
		}
		return "damaged"
	case !changed:
		return "unchanged"
	case r.Cut() == nil || !slices.Equal(found, before) || !zeros && !twice && (o.closed || sameLength && first < o.end()):
		t.Errorf("%s: changed from byte %d and accepted with %d messages, %d are before the change; cut %v",
			name, first, len(found), len(before), r.Cut())
	}
	return "interrupted"
}

// messages returns the names of the messages of a log, sorted, and the first damage.
func messages(r *Reader) (names []string, damage error) {
	for record, err := range r.Records() {
		switch {
		case err != nil:
			damage = errors.Join(damage, err)
		case record.Tick != nil:
			names = append(names, fmt.Sprint("/tick ", record.Tick.Index))
		case record.Label != nil:
			names = append(names, fmt.Sprint("/label ", record.Label.ID))
		default:
			names = append(names, record.Topic)
		}
	}
	slices.Sort(names)
	return names, damage
}

// checkCopy checks that Recover copies every message, and that a copy can be verified if the log
// can.
func checkCopy(t *testing.T, name string, log []byte, r *Reader, want []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	fatal.If(t, os.WriteFile(path, log, 0o600))
	saved, err := Recover(path, path+".copy")
	fatal.If(t, err)
	c := open(t, path+".copy")
	found, err := messages(c)
	if err != nil || c.Damage() != nil || c.Cut() != nil || !slices.Equal(found, want) ||
		len(saved.Damage) != len(r.Damage()) || (c.Unverifiable() == nil) != (r.Unverifiable() == nil) ||
		(c.Metadata().Extra[KeyRecovered] == "") != (r.Damage() == nil) {
		t.Errorf("%s: a copy with %d of %d messages, damage %v, cut %v, unverifiable: %v, %v",
			name, len(found), len(want), c.Damage(), c.Cut(), c.Unverifiable(), err)
	}
}

func TestReader_NamesTheDamagedByte(t *testing.T) {
	o := writeOriginal(t, 60, false).killed(0)
	c := o.chunks[3]
	index := c.from + len(c.record(o.log)) + 20
	for name, damaged := range map[string]struct {
		log  []byte
		want int
	}{
		"a checksum":    {flip(o.log, index-100), c.from},
		"a length":      {flip(o.log, c.from+2), c.from},
		"an index":      {flip(o.log, index), index},
		"a missing one": {slices.Concat(o.log[:c.from], o.log[c.to:]), c.from},
		"the preamble":  {flip(o.log, o.preamble/2), int(firstRecord)},
	} {
		r, err := NewReader(bytes.NewReader(damaged.log), int64(len(damaged.log)))
		fatal.If(t, err)
		var found *DamageError
		if errs := r.Damage(); len(errs) != 1 || !errors.As(errs[0], &found) || found.Offset != int64(damaged.want) {
			t.Errorf("%s: %v, want one at byte %d", name, errs, damaged.want)
		}
	}
}

func TestReader_CutHasOffsetAndLastTick(t *testing.T) {
	o := writeOriginal(t, 60, false)
	c := o.chunks[3] // begins after a label about tick 5 and the ticks 6 and 7
	r, err := NewReader(bytes.NewReader(o.log[:c.to-100]), int64(c.to-100))
	fatal.If(t, err)
	if cut := r.Cut(); cut == nil || cut.Offset != int64(c.from) || !cut.HasTick || cut.LastTick != 7 {
		t.Errorf("got %+v, want a cut at %d after tick 7", cut, c.from)
	}
}

func flip(log []byte, at int) []byte {
	log = bytes.Clone(log)
	log[at] ^= 0x10
	return log
}

// dataEnd returns the offset of the record that ends the data section.
func dataEnd(log []byte) int {
	at := len(mcap.Magic)
	for mcap.OpCode(log[at]) != mcap.OpDataEnd {
		at += recordLead + int(binary.LittleEndian.Uint64(log[at+1:]))
	}
	return at
}

func TestReader_AcceptsALogThatAnotherProgramRewrote(t *testing.T) {
	o := writeOriginal(t, 60, false)
	r, err := NewReader(bytes.NewReader(o.log), int64(len(o.log)))
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
		fatal.If(t, w.WriteAttachment(&mcap.Attachment{
			Name: controllerFile, DataSize: uint64(len(r.control)), Data: bytes.NewReader(r.control),
		}))
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
