package flightlog

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// tinyShape gives the smallest chunks.
var tinyShape = controller.Shape{Obs: 1, Action: 1, Latent: 1}

// writeChunks writes labels. Each label ends a chunk.
func writeChunks(t testing.TB, w *Writer, n int) {
	t.Helper()
	for i := range n {
		fatal.If(t, w.WriteLabel(testLabel(uint64(i+1))))
	}
}

func TestWriter_MemoryDoesNotGrowWithChunks(t *testing.T) {
	w, _ := create(t, testMetadata(tinyShape), Options{NoSync: true})
	heap := func(chunks int) int64 {
		writeChunks(t, w, chunks)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 10_000
	first := heap(n)
	last := heap(3 * n)
	t.Logf("%d bytes after %d chunks, %d after %d", first, n, last, 4*n)
	if last-first > 512<<10 { // 88 bytes for each chunk would be 2.6 MB
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
	runtime.KeepAlive(w)
	fatal.If(t, w.Close())
}

func TestWriter_SummaryListsEveryChunk(t *testing.T) {
	const n = 3000 // more than the index keeps in memory
	w, path := create(t, testMetadata(tinyShape), Options{NoSync: true})
	writeChunks(t, w, n)
	if w.index.size == 0 {
		t.Error("the file of the index is empty")
	}
	fatal.If(t, w.Close())
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
	f, err := os.Open(path)
	fatal.If(t, err)
	defer func() { _ = f.Close() }()
	reader, err := mcap.NewReader(f)
	fatal.If(t, err)
	info, err := reader.Info()
	fatal.If(t, err)
	if len(info.ChunkIndexes) != n {
		t.Fatalf("%d chunks in the summary, want %d", len(info.ChunkIndexes), n)
	}
	messages, err := reader.Messages(mcap.UsingIndex(true), mcap.InOrder(mcap.LogTimeOrder))
	fatal.If(t, err)
	read := 0
	for {
		if _, _, _, err := messages.NextInto(nil); err != nil {
			break
		}
		read++
	}
	if r := open(t, path); read != n || len(r.Damage()) > 0 || r.Cut() != nil {
		t.Errorf("the index leads to %d messages, want %d; damage %v, cut %v", read, n, r.Damage(), r.Cut())
	}
}

func TestWriter_StaysReadableWithoutAnIndex(t *testing.T) {
	const n = 20_000 // more than the index may keep in memory
	w, path := create(t, testMetadata(tinyShape), Options{NoSync: true})
	w.index.dir = filepath.Join(t.TempDir(), "absent")
	writeChunks(t, w, n)
	if len(w.index.fresh) > indexMost+indexPiece {
		t.Errorf("%d bytes of the index are in memory", len(w.index.fresh))
	}
	errtest.Is(t, w.Close(), errNoIndex)
	r := open(t, path)
	labels := 0
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Label != nil {
			labels++
		}
	}
	if labels != n || r.Cut() == nil || len(r.Damage()) > 0 {
		t.Errorf("%d labels of %d; damage %v, cut %v", labels, n, r.Damage(), r.Cut())
	}
}
