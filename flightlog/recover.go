package flightlog

import (
	"errors"
	"fmt"
	"math"
	"os"
)

// ErrSameFile is returned by Recover if output and input are the same file.
var ErrSameFile = errors.New("flightlog.Recover: the output is the input; give another name")

// Recovered is the result of Recover.
type Recovered struct {
	Messages map[string]uint64 // by topic
	From     int64             // bytes of the input
	To       int64             // bytes of the output
	Damage   []error           // skipped parts
	Cut      *Cut              // the missing end, nil for a closed log
}

// KeyRecovered in Metadata.Extra marks a log that was copied from a damaged one.
const KeyRecovered = "recovered"

// recoverChunk is the size of the chunks of a copy, bytes.
const recoverChunk = 1 << 20

// Recover copies each readable message of a log, bit for bit, to a new log with
// indexes, a summary and zstd compression. The metadata of the copy names the damage.
// Recover does not change the input. out must not exist. Recover leaves out records of
// other programs.
func Recover(in, out string) (Recovered, error) {
	if sameFile(in, out) {
		return Recovered{}, ErrSameFile
	}
	r, err := Open(in)
	if err != nil {
		return Recovered{}, err
	}
	defer func() { _ = r.Close() }()
	if damage := r.Damage(); len(damage) > 0 {
		text := fmt.Sprintf("from a log with damage in %d place(s), the first: %v", len(damage), damage[0])
		r.meta.note(KeyRecovered, text)
	}
	if r.lacks != nil {
		r.meta.note(keyUnverifiable, r.lacks.Error())
	}
	w, err := Create(out, r.meta, Options{Compress: true, SyncEvery: math.MaxInt64})
	if err != nil {
		return Recovered{}, fmt.Errorf("flightlog.Recover: %w; give another name", err)
	}
	result := Recovered{Messages: make(map[string]uint64), From: r.size, Cut: r.cut}
	result.Damage, err = r.each(func(record *Record) error {
		result.Messages[record.Topic]++
		if _, err := w.addEncoded(record.channel, record.LogTime, record.data); err != nil {
			return err
		}
		if w.chunk.size() < recoverChunk {
			return nil
		}
		return w.Flush()
	})
	if err = errors.Join(err, w.Close()); err != nil {
		_ = os.Remove(out) // an incomplete copy; the input still exists
		return Recovered{}, fmt.Errorf("flightlog.Recover %s: %w", out, err)
	}
	result.To = w.Stats().Bytes
	return result, nil
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
