package flightlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/proto"

	"optibfm/controller"
	"optibfm/flightlog/flightlogpb"
	"optibfm/internal/safefile"
	"optibfm/rewardsrc"
)

// Errors of a Writer.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("flightlog: the log is closed")
	// ErrBacklog is returned for a message that was dropped because earlier messages
	// could not be written.
	ErrBacklog = errors.New("flightlog: writing the log fails and the backlog is full: the message is dropped")
	// ErrLabelID is returned for a label without an ID.
	ErrLabelID = errors.New("flightlog: label ID: found 0; give each label an ID that is unique in the log")
)

// Options are the options of a Writer. The zero value means the defaults.
type Options struct {
	FlushEvery time.Duration // longest time that a chunk stays open; 0: 250 ms
	SyncEvery  time.Duration // interval of fsync for ticks; 0: 2 s; each label has its fsync
	Backlog    int           // bytes that wait in memory while writing fails; 0: 8 MiB
	Compress   bool          // with zstd
	// NoSync leaves out every fsync, including that of labels, so a power failure can
	// lose acknowledged labels. It is for simulations, because their labels can be repeated.
	NoSync bool
	// Now is the clock of FlushEvery and SyncEvery; nil: time.Now.
	Now func() time.Time
	// OnSync, if not nil, is called before and after each fsync.
	OnSync func(running bool)
}

func (o Options) withDefaults() Options {
	if o.FlushEvery <= 0 {
		o.FlushEvery = 250 * time.Millisecond
	}
	if o.SyncEvery <= 0 {
		o.SyncEvery = 2 * time.Second
	}
	if o.Backlog <= 0 {
		o.Backlog = 8 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Stats are the counters of a Writer.
type Stats struct {
	Labels  uint64 // acknowledged
	Bytes   int64  // in the file
	Missing uint64 // periods without a record: dropped ticks and the periods that these skipped
	Refused uint64 // messages dropped because writing failed
}

// Writer writes a log. It is not safe for concurrent use. The control thread must not
// call it.
type Writer struct {
	path     string
	file     file
	meta     Metadata
	opts     Options
	channels channelSet
	chunk    *openChunk
	out      *records // records to write next
	extent            // of the valid part of the file

	index       chunkIndex
	attachments []*mcap.AttachmentIndex
	metadata    []*mcap.MetadataIndex
	written     mcap.Statistics // of the file
	waiting     [numChannels]uint64

	named     namedChannels
	tick      flightlogpb.Tick // scratch
	data      []byte           // scratch
	sequence  [numChannels]uint32
	lastIndex uint64
	hasTick   bool
	newest    int64     // the newest time seen
	opened    time.Time // time of the first message of the open chunk
	tried     time.Time // the last failed attempt to write
	synced    time.Time
	dirty     bool // written since the last fsync
	broken    error
	lost      error // final
	closed    bool
	stats     Stats
}

// Create creates a log and writes its metadata. The file must not exist. When Create
// returns, the file and its directory entry are on disk.
func Create(path string, meta Metadata, opts Options) (*Writer, error) {
	if err := meta.check(); err != nil {
		return nil, fmt.Errorf("flightlog.Create %s: %w", path, err)
	}
	f, err := createLocked(path, 0o640)
	if err != nil {
		return nil, fmt.Errorf("flightlog.Create: %w", err)
	}
	w, err := newWriter(path, namedFile{f, path}, meta, logChannels, opts)
	if err == nil && !opts.NoSync {
		err = safefile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path) // Create made it, and it holds no message
		return nil, fmt.Errorf("flightlog.Create %s: %w", path, err)
	}
	return w, nil
}

// createLocked creates a file that MakeRoom of another run does not remove.
func createLocked(path string, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

func newWriter(path string, f file, meta Metadata, channels channelSet, opts Options) (*Writer, error) {
	w := &Writer{path: path, file: f, meta: meta, channels: channels, opts: opts.withDefaults()}
	w.newest, w.index, w.named = meta.Clock.MonoNS, newChunkIndex(path), channelsOf(meta.Robot)
	w.written.ChannelMessageCounts = make(map[uint16]uint64)
	var err error
	if w.chunk, err = newOpenChunk(channels, opts.Compress); err != nil {
		return nil, err
	}
	if w.out, err = newRecords(); err != nil {
		return nil, err
	}
	if err := w.writePreamble(); err != nil {
		return nil, err
	}
	return w, nil
}

// writePreamble writes the records before the first message.
func (w *Writer) writePreamble() error {
	w.out.buf.Write(mcap.Magic)
	if err := w.out.WriteHeader(&mcap.Header{Profile: profile, Library: library + w.meta.Program}); err != nil {
		return err
	}
	if err := w.out.declare(w.channels, w.named); err != nil {
		return err
	}
	kv, err := w.meta.encode()
	if err != nil {
		return err
	}
	kv[keyPreamble] = "in " + preambleName
	if err := w.addMetadata(metadataName, kv); err != nil {
		return err
	}
	if len(w.meta.Extra) > 0 {
		if err := w.addMetadata(extraName, w.meta.Extra); err != nil {
			return err
		}
	}
	if w.channels == logChannels {
		if err := w.addConfiguration(); err != nil {
			return err
		}
	}
	// No checksum of a chunk covers the preamble, and a log that is never closed has no
	// other checksum.
	sum := preambleSum(crc32.ChecksumIEEE(w.out.buf.Bytes()))
	if err := w.addMetadata(preambleName, map[string]string{keyPreamble: sum}); err != nil {
		return err
	}
	if err := w.append(); err != nil {
		return err
	}
	return w.sync()
}

// addConfiguration adds the configuration, which a replay needs.
func (w *Writer) addConfiguration() error {
	if w.meta.Extra[keyUnverifiable] == "" {
		control, err := json.MarshalIndent(w.meta.Control, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the controller's configuration: %w", err)
		}
		if err := w.addAttachment(controllerFile, mediaJSON, control); err != nil {
			return err
		}
	}
	if len(w.meta.Config) == 0 {
		return nil
	}
	return w.addAttachment(configFile, mediaYAML, w.meta.Config)
}

func (w *Writer) addMetadata(name string, kv map[string]string) error {
	at := w.out.buf.Len()
	if err := w.out.WriteMetadata(&mcap.Metadata{Name: name, Metadata: kv}); err != nil {
		return fmt.Errorf("metadata %s: %w", name, err)
	}
	w.metadata = append(w.metadata, &mcap.MetadataIndex{
		Offset: uint64(at), Length: uint64(w.out.buf.Len() - at), Name: name,
	})
	w.written.MetadataCount++
	return nil
}

func (w *Writer) addAttachment(name, media string, data []byte) error {
	at := w.out.buf.Len()
	stamp := uint64(max(0, w.meta.Clock.WallNS))
	err := w.out.WriteAttachment(&mcap.Attachment{
		LogTime: stamp, CreateTime: stamp, Name: name, MediaType: media,
		DataSize: uint64(len(data)), Data: bytes.NewReader(data),
	})
	if err != nil {
		return fmt.Errorf("attachment %s: %w", name, err)
	}
	w.attachments = append(w.attachments, &mcap.AttachmentIndex{
		Offset: uint64(at), Length: uint64(w.out.buf.Len() - at),
		LogTime: stamp, CreateTime: stamp, DataSize: uint64(len(data)), Name: name, MediaType: media,
	})
	w.written.AttachmentCount++
	return nil
}

// Stats returns the present counters.
func (w *Writer) Stats() Stats {
	s := w.stats
	s.Bytes = w.size
	return s
}

// WriteTick adds a tick. The tick is in the file after at most FlushEvery. WriteTick
// does not keep t. It counts a gap before t that Elapsed does not explain, and writes an
// event about it.
func (w *Writer) WriteTick(t *controller.Tick) error {
	s := w.meta.Shape
	if len(t.Obs) != s.Obs || len(t.Action) != s.Action || len(t.Phi) != s.Latent || len(t.Z) != s.Latent {
		return fmt.Errorf("flightlog.WriteTick: found obs %d, action %d, phi %d, z %d; Create was given %+v",
			len(t.Obs), len(t.Action), len(t.Phi), len(t.Z), s)
	}
	at := SampleTime(t)
	w.newest = max(w.newest, at)
	gap := w.noteGap(t)
	tickMessage(&w.tick, t)
	if err := w.write(tickChannel, at, &w.tick); err != nil {
		return errors.Join(gap, err)
	}
	return gap
}

// SampleTime returns the time of a tick on the robot's clock: of its sample, or of its wake-up if
// the robot has not given one yet.
func SampleTime(t *controller.Tick) int64 {
	if t.SenseAt == 0 {
		return t.Wake
	}
	return t.SenseAt
}

// noteGap counts the periods before t without a record.
func (w *Writer) noteGap(t *controller.Tick) error {
	missing := missingBefore(t, w.lastIndex, w.hasTick)
	w.lastIndex, w.hasTick = t.Index, true
	if missing == 0 {
		return nil
	}
	w.stats.Missing += missing
	return w.WriteEvent(Event{
		At: w.newest, Level: Warn, Text: "ticks are missing: the log did not keep up with the control loop",
		Fields: map[string]string{"before_tick": fmt.Sprint(t.Index), "periods": fmt.Sprint(missing)},
	})
}

// missingBefore returns the periods between the tick before and t that t's
// Elapsed does not account for.
func missingBefore(t *controller.Tick, last uint64, hasLast bool) uint64 {
	if !hasLast {
		if t.Elapsed == 0 { // the first tick of the run
			return 0
		}
		return t.Index - min(t.Index, t.Elapsed) + 1 // from period 0 on
	}
	if t.Index <= last || t.Index-last <= t.Elapsed {
		return 0
	}
	return t.Index - last - t.Elapsed
}

// WriteLabel adds a label and returns when it is on disk. After an error the label is not
// in the log, and the caller must not acknowledge it.
func (w *Writer) WriteLabel(l rewardsrc.Label) error {
	if w.closed {
		return ErrClosed
	}
	if l.ID == 0 {
		return ErrLabelID
	}
	w.newest = max(w.newest, l.At)
	taken, err := w.add(labelChannel, l.At, labelMessage(l))
	if err != nil {
		return err
	}
	if err := w.commit(true); err != nil {
		w.takeBack(taken)
		return fmt.Errorf("flightlog.WriteLabel %d: the label is not on disk, do not acknowledge it: %w", l.ID, err)
	}
	w.stats.Labels++
	return nil
}

// WriteRequest adds a request or its end.
func (w *Writer) WriteRequest(r rewardsrc.Request) error {
	w.newest = max(w.newest, r.At)
	return w.write(requestChannel, w.newest, requestMessage(r))
}

// WritePlan adds a plan.
func (w *Writer) WritePlan(p Plan) error {
	w.newest = max(w.newest, p.At)
	return w.write(planChannel, p.At, planMessage(&p))
}

// WriteEvent adds an event; an At of 0 becomes the newest time seen.
func (w *Writer) WriteEvent(e Event) error {
	e.At = cmp.Or(e.At, w.newest)
	w.newest = max(w.newest, e.At)
	return w.write(eventChannel, e.At, eventMessage(&e))
}

// WriteTiming adds a summary of the loop.
func (w *Writer) WriteTiming(t Timing) error {
	w.newest = max(w.newest, t.At)
	return w.write(timingChannel, t.At, timingMessage(&t))
}

// WriteSnapshot adds a belief. It does not keep the state. A replay starts at a snapshot, and
// resumes at one after dropped ticks.
func (w *Writer) WriteSnapshot(s Snapshot) error {
	return w.write(snapshotChannel, w.newest, snapshotMessage(&s))
}

// write adds a message and writes the chunk after FlushEvery.
func (w *Writer) write(channel int, at int64, m proto.Message) error {
	if w.closed {
		return ErrClosed
	}
	if w.chunk.size() >= w.opts.Backlog {
		if err := w.retry(); err != nil {
			w.stats.Refused++
			return fmt.Errorf("%w: %w", ErrBacklog, err)
		}
	}
	if _, err := w.add(channel, at, m); err != nil {
		return err
	}
	if w.opts.Now().Sub(w.opened) < w.opts.FlushEvery {
		return nil
	}
	return w.retry()
}

// retry writes the open chunk; after a failure at most once every FlushEvery.
func (w *Writer) retry() error {
	if w.broken != nil && w.opts.Now().Sub(w.tried) < w.opts.FlushEvery {
		return w.broken
	}
	return w.Flush()
}

// add adds a message to the open chunk.
func (w *Writer) add(channel int, at int64, m proto.Message) (mark, error) {
	var err error
	w.data, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(w.data[:0], m)
	if err != nil {
		return mark{}, fmt.Errorf("flightlog: encoding a message for %s: %w", topics[channel].name, err)
	}
	if channel == tickChannel {
		w.data = w.named.append(w.data, w.tick.Obs, w.tick.Action)
	}
	return w.addEncoded(channel, w.meta.Clock.logTime(at), w.data)
}

func (w *Writer) addEncoded(channel int, stamp uint64, data []byte) (mark, error) {
	if w.chunk.size() == 0 {
		w.opened = w.opts.Now()
	}
	taken, err := w.chunk.add(channel, &mcap.Message{
		Sequence: w.sequence[channel], LogTime: stamp, PublishTime: stamp, Data: data,
	})
	if err != nil {
		return mark{}, fmt.Errorf("flightlog: %w", err)
	}
	w.sequence[channel]++
	w.waiting[channel]++
	return taken, nil
}

func (w *Writer) takeBack(m mark) {
	w.chunk.takeBack(m)
	w.sequence[m.channel]--
	w.waiting[m.channel]--
}

// Flush writes the open chunk. Call it after some time without a message.
func (w *Writer) Flush() error {
	if w.closed {
		return ErrClosed
	}
	due := w.opts.Now().Sub(w.synced) >= w.opts.SyncEvery
	if w.chunk.size() == 0 {
		if due && w.dirty {
			return w.wrap(w.sync())
		}
		return nil
	}
	return w.wrap(w.commit(due))
}

func (w *Writer) wrap(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrLost) {
		return fmt.Errorf("flightlog: writing %s: %w", w.path, err)
	}
	return fmt.Errorf("flightlog: writing %s: %w; free space on the disk, or check the disk", w.path, err)
}

// commit appends the open chunk to the file and, with durable, calls fsync. After an
// error the file has its old length and the chunk is still open.
func (w *Writer) commit(durable bool) error {
	before := w.extent
	w.out.buf.Reset()
	closed, err := w.chunk.encode(w.out, uint64(w.size))
	if err != nil {
		return err
	}
	if w.data, err = w.out.chunkIndex(w.data[:0], &closed); err != nil {
		return err
	}
	err = w.append()
	if err == nil && durable {
		if err = w.sync(); err == nil {
			err = w.intact()
		}
		if err != nil { // the data may never reach the disk, so write it again
			w.cutBack(before)
		}
	}
	if err != nil {
		w.broken, w.tried = err, w.opts.Now()
		return err
	}
	w.broken = nil
	w.count(&closed)
	w.chunk.reset()
	w.index.add(w.data)
	return nil
}

// append appends w.out to the file, and empties w.out, also after an error.
func (w *Writer) append() error {
	defer w.out.buf.Reset()
	if err := w.intact(); err != nil {
		return err
	}
	p, before := w.out.buf.Bytes(), w.extent
	if _, err := w.file.WriteAt(p, w.size); err != nil {
		w.cutBack(before)
		return err
	}
	w.extent = before.with(p)
	w.dirty = true
	// The write extends a file that was truncated just before it. Then the bytes in front of it are
	// 0.
	if err := w.noteLoss(w.file.Intact(before.size, before.tail, w.size)); err != nil {
		w.cutBack(before)
		return err
	}
	return nil
}

// cutBack restores the length of the file. It may ignore errors, because the next write
// goes to the same offset.
func (w *Writer) cutBack(to extent) {
	w.extent = to
	_ = w.intact()
}

// intact returns an error if the file is not the log. A loss is final: a later write would hide it.
func (w *Writer) intact() error {
	return w.noteLoss(w.file.Intact(w.size, w.tail, w.size))
}

func (w *Writer) noteLoss(err error) error {
	if w.lost == nil && errors.Is(err, ErrLost) {
		w.lost = err
	}
	return cmp.Or(w.lost, err)
}

func (w *Writer) sync() error {
	if w.opts.NoSync {
		return nil
	}
	if w.opts.OnSync != nil {
		w.opts.OnSync(true)
		defer w.opts.OnSync(false)
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.synced = w.opts.Now()
	w.dirty = false
	return nil
}

// count adds the chunk to the statistics of the file.
func (w *Writer) count(c *mcap.ChunkIndex) {
	s := &w.written
	if s.MessageCount == 0 {
		s.MessageStartTime = c.MessageStartTime
	}
	s.MessageStartTime = min(s.MessageStartTime, c.MessageStartTime)
	s.MessageEndTime = max(s.MessageEndTime, c.MessageEndTime)
	s.ChunkCount++
	for i, n := range w.waiting {
		if n > 0 {
			s.ChannelMessageCounts[uint16(i+1)] += n
			s.MessageCount += n
		}
		w.waiting[i] = 0
	}
}

// Close writes the open chunk and the summary, and closes the file. With the summary,
// tools open the log without reading all of it. A log without a summary is still valid;
// Recover adds one to a copy.
func (w *Writer) Close() error {
	if w.closed {
		return ErrClosed
	}
	err := w.Flush()
	for _, finish := range []func() error{w.intact, w.writeSummary, w.sync, w.intact} {
		if err == nil {
			err = w.wrap(finish())
		}
	}
	w.closed = true
	return errors.Join(err, w.file.Close(), w.index.close())
}
