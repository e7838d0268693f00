package flightlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/internal/safefile"
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
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return Recovered{}, fmt.Errorf("flightlog.Recover: %w; give another name", err)
	}
	if damage := r.Damage(); len(damage) > 0 {
		text := fmt.Sprintf("from a log with damage in %d place(s), the first: %v", len(damage), damage[0])
		r.meta.note(KeyRecovered, text)
	}
	if r.lacks != nil {
		r.meta.note(keyUnverifiable, r.lacks.Error())
	}
	result, err := r.copyTo(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = safefile.SyncDir(filepath.Dir(out))
	}
	if err != nil {
		_ = os.Remove(out) // an incomplete copy; the input still exists
		return Recovered{}, fmt.Errorf("flightlog.Recover %s: %w", out, err)
	}
	return result, nil
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// copyTo writes every readable record with the library's writer.
func (r *Reader) copyTo(f *os.File) (Recovered, error) {
	buffered := bufio.NewWriterSize(f, 1<<20)
	w, err := mcap.NewWriter(buffered, &mcap.WriterOptions{
		IncludeCRC: true, Chunked: true, ChunkSize: 1 << 20, Compression: mcap.CompressionZSTD,
	})
	if err != nil {
		return Recovered{}, err
	}
	if err := r.copyPreamble(w); err != nil {
		return Recovered{}, err
	}
	result := Recovered{Messages: make(map[string]uint64), From: r.size, Cut: r.cut}
	if result.Damage, err = r.copyMessages(w, result.Messages); err != nil {
		return Recovered{}, err
	}
	if err := w.Close(); err != nil {
		return Recovered{}, err
	}
	result.To = int64(w.Offset())
	return result, buffered.Flush()
}

func (r *Reader) copyPreamble(w *mcap.Writer) error {
	if err := w.WriteHeader(&mcap.Header{Profile: r.header.Profile, Library: r.header.Library}); err != nil {
		return err
	}
	if err := (&records{Writer: w}).declare(logChannels, channelsOf(r.meta.Robot)); err != nil {
		return err
	}
	kv, err := r.meta.encode()
	if err != nil {
		return err
	}
	if err := w.WriteMetadata(&mcap.Metadata{Name: metadataName, Metadata: kv}); err != nil {
		return err
	}
	if len(r.meta.Extra) > 0 {
		if err := w.WriteMetadata(&mcap.Metadata{Name: extraName, Metadata: r.meta.Extra}); err != nil {
			return err
		}
	}
	return r.copyAttachments(w)
}

func (r *Reader) copyAttachments(w *mcap.Writer) error {
	attach := func(name, media string, data []byte) error {
		stamp := uint64(max(0, r.meta.Clock.WallNS))
		return w.WriteAttachment(&mcap.Attachment{
			LogTime: stamp, CreateTime: stamp, Name: name, MediaType: media,
			DataSize: uint64(len(data)), Data: bytes.NewReader(data),
		})
	}
	if r.control != nil {
		if err := attach(controllerFile, mediaJSON, r.control); err != nil {
			return err
		}
	}
	if len(r.meta.Config) == 0 {
		return nil
	}
	return attach(configFile, mediaYAML, r.meta.Config)
}

// copyMessages copies the bytes of each message that can be decoded.
func (r *Reader) copyMessages(w *mcap.Writer, copied map[string]uint64) (damage []error, err error) {
	var sequence [numChannels]uint32
	for record, err := range r.Records() {
		if errors.Is(err, ErrDamaged) {
			damage = append(damage, err)
			continue
		}
		if err != nil {
			return damage, err
		}
		channel := record.channel
		err = w.WriteMessage(&mcap.Message{
			ChannelID: uint16(channel + 1), Sequence: sequence[channel],
			LogTime: record.LogTime, PublishTime: record.LogTime, Data: record.data,
		})
		if err != nil {
			return damage, err
		}
		sequence[channel]++
		copied[record.Topic]++
	}
	return damage, nil
}
