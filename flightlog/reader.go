package flightlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"google.golang.org/protobuf/proto"

	"optibfm/controller"
	"optibfm/flightlog/flightlogpb"
	"optibfm/hal"
	"optibfm/internal/safefile"
	"optibfm/rewardsrc"
)

// Errors of a Reader.
var (
	// ErrNotALog is returned by Open for a file that is not an MCAP file or lacks
	// the metadata of a log.
	ErrNotALog = errors.New("not a flight log")
	// ErrVersion is returned by Open for a log of a version that this program does not read.
	ErrVersion = errors.New("the log has an unsupported version")
	// ErrDamaged is wrapped by every DamageError.
	ErrDamaged = errors.New("the log is damaged")
	// ErrUnverifiable is returned by Verify for a log that lacks what a replay needs, because of
	// damage. Its records are readable.
	ErrUnverifiable = errors.New("nothing in the log can be verified")
)

// DamageError is a damaged part of a log. The Reader reads the bytes before and after
// it.
type DamageError struct {
	Offset int64 // of the place in the file
	End    int64 // of the next readable record; Offset if bytes are missing
	Err    error
}

func (e *DamageError) Error() string {
	if e.End <= e.Offset {
		return fmt.Sprintf("damaged at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("damaged from byte %d to %d: %v", e.Offset, e.End, e.Err)
}

// Unwrap returns ErrDamaged and the cause.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// Cut is the end of a log that was never closed. After a kill or a power failure it is
// normal and not damage.
type Cut struct {
	Offset   int64  // end of the valid records
	Bytes    int64  // after Offset, of an incomplete record
	HasTick  bool   // a tick precedes Offset
	LastTick uint64 // index of the last tick
}

// Record is one message of a log. Exactly one of the pointers is set.
type Record struct {
	Topic    string
	LogTime  uint64 // wall clock, ns since 1970
	Offset   int64  // of the chunk, or record, in the file
	Tick     *controller.Tick
	Label    *rewardsrc.Label
	Request  *rewardsrc.Request
	Plan     *Plan
	Event    *Event
	Timing   *Timing
	Snapshot *Snapshot
	Picture  *Picture // in the files of pictures

	channel int    // index in topics
	data    []byte // the encoded message
}

// Limits of lengths in a file, above those that a Writer writes. They bound the memory that a small
// file can take: compressed data unpack to 30,000 times their length, an empty message inside
// another becomes 200 bytes.
const (
	maxRecord     = 96 << 20 // bytes of a record
	maxBody       = 16 << 20 // bytes of an unpacked chunk without a snapshot
	maxWindow     = 32 << 20 // bytes of zstd's window
	maxAttachment = 16 << 20
	maxShort      = 1 << 20 // bytes of a record other than a chunk, a message or an attachment
)

// mostBytes returns the largest message of a channel.
func (r *Reader) mostBytes(channel int) int {
	const fixed = 16 << 10 // fields that do not depend on the shape
	s := r.meta.Shape
	switch channel {
	case tickChannel:
		if r.tick == nil { // see inferMetadata
			return maxShort
		}
		return fixed + (5+namedBytes)*(s.Obs+s.Action) + 2*9*s.Latent
	case planChannel:
		return fixed + 9*s.Latent
	case snapshotChannel:
		return fixed + 9*min(s.StateLen(), maxRecord/9)
	case viewChannel, eventChannel:
		return maxShort + maxShort/2
	}
	return fixed
}

// maxChunk returns the limit of an unpacked chunk.
func (r *Reader) maxChunk() uint64 {
	return uint64(min(maxRecord, maxBody+r.mostBytes(snapshotChannel)))
}

// Reader reads a complete, cut or damaged log. It is not safe for concurrent use.
type Reader struct {
	path    string // "" without a file
	src     io.ReaderAt
	closer  io.Closer
	size    int64
	meta    Metadata
	hasMeta bool
	ours    bool   // a Writer of this package wrote the log; true until the header denies it
	control []byte // controller.json
	foreign error  // ErrVersion, from the metadata
	lacks   error  // what a replay needs, nil for nothing
	// The metadata may announce a record with the checksum of the preamble.
	announced, summed, sumAgrees bool
	// parts are the chunks, the messages outside chunks and the damaged parts, in
	// file order.
	parts    []part
	schemas  map[uint16]string // ID to message name
	channels map[uint16]int    // ID to index in topics
	cut      *Cut
	unpacker *zstd.Decoder
	tick     *controller.Tick
}

// part is a record of the data section that holds messages, or a damaged part.
type part struct {
	op     mcap.OpCode
	offset int64        // of the record
	length int64        // without opcode and length
	damage *DamageError // nil for a record
}

// end returns the offset after the record.
func (p part) end() int64 { return p.offset + recordLead + p.length }

// Open opens a log and reads all of it once to find damage and a cut. The caller must
// close the Reader.
func Open(path string) (*Reader, error) { return openFile(path, NewReader) }

func openFile(path string, read func(io.ReaderAt, int64) (*Reader, error)) (*Reader, error) {
	f, size, err := safefile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("flightlog.Open: %w", err)
	}
	r, err := read(f, size)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("flightlog.Open %s: %w", path, err)
	}
	r.path, r.closer = path, f
	return r, nil
}

// NewReader reads a log of the given size from src.
func NewReader(src io.ReaderAt, size int64) (*Reader, error) {
	r, err := newReader(src, size)
	if err != nil {
		return nil, err
	}
	if log := r.meta.Extra[keyPicturesOf]; log != "" && r.control == nil {
		return nil, fmt.Errorf("%w: it contains the pictures of %s; open that log", ErrNotALog, log)
	}
	return r, r.decodeControl()
}

// newReader reads a log or the pictures of one.
func newReader(src io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{src: src, size: size, ours: true, schemas: make(map[uint16]string), channels: make(map[uint16]int)}
	for i := range topics { // the numbers of every Writer; the declarations may be damaged
		r.channels[uint16(i+1)] = i
	}
	if err := r.walk(); err != nil {
		return nil, err
	}
	if len(r.Damage()) > 0 {
		r.restoreChannels()
		r.inferMetadata()
	}
	if !r.hasMeta && r.lacks == nil {
		return nil, r.missing(fmt.Sprintf("the metadata record %q", metadataName))
	}
	r.tick = controller.NewTick(r.meta.Shape)
	if r.cut != nil {
		r.cut.LastTick, r.cut.HasTick = r.lastTick()
	}
	return r, nil
}

// lastTick searches for the last tick from the end.
func (r *Reader) lastTick() (index uint64, ok bool) {
	for i := len(r.parts) - 1; i >= 0 && !ok; i-- {
		r.visit(r.parts[i], 1<<tickChannel, func(record *Record, err error) bool {
			if err == nil && record.Tick != nil {
				index, ok = record.Tick.Index, true
			}
			return true
		})
	}
	return index, ok
}

// missing returns the error for a file without a required record.
func (r *Reader) missing(what string) error {
	switch damage := r.Damage(); {
	case len(damage) > 0:
		return fmt.Errorf("%s is unreadable: %w", what, damage[0])
	case r.cut != nil:
		return fmt.Errorf("%w: %s is missing (valid up to byte %d)", ErrNotALog, what, r.cut.Offset)
	}
	return fmt.Errorf("%w: %s is missing", ErrNotALog, what)
}

// decodeControl reads the settings of the learner. Damage to them costs only the verification.
func (r *Reader) decodeControl() error {
	if text := r.meta.Extra[keyUnverifiable]; text != "" && r.lacks == nil {
		r.lacks = errors.New(text)
	}
	damage := r.Damage()
	if r.control == nil {
		if len(damage) == 0 && r.lacks == nil {
			return r.missing("the attachment " + controllerFile)
		}
		r.lacks = cmp.Or(r.lacks, fmt.Errorf("the attachment %s is unreadable", controllerFile))
		return nil
	}
	control := controller.PaperBelief() // of keys that older logs do not have
	err := json.Unmarshal(r.control, &control)
	if basis := control.Basis; err == nil && basis != nil && r.hasMeta {
		err = basis.Fits(r.meta.Shape.Obs, r.meta.Shape.Latent)
	}
	if err == nil {
		r.meta.Control = control
		return nil
	}
	err = fmt.Errorf("the attachment %s: %w", controllerFile, err)
	if len(damage) == 0 {
		r.damageFirst(err)
	}
	r.control, r.lacks = nil, cmp.Or(r.lacks, err)
	return nil
}

// damageFirst records damage to the records before the first message.
func (r *Reader) damageFirst(err error) {
	found := &DamageError{Offset: firstRecord, End: firstRecord, Err: err}
	r.parts = slices.Insert(r.parts, 0, part{offset: firstRecord, damage: found})
}

// restoreChannels gives topics without a readable declaration the numbers of a Writer.
func (r *Reader) restoreChannels() {
	declared := slices.Collect(maps.Values(r.channels))
	for i := range topics {
		if _, taken := r.channels[uint16(i+1)]; !taken && !slices.Contains(declared, i) {
			r.channels[uint16(i+1)] = i
		}
	}
}

// inferMetadata takes the dimensions and the period of a damaged log from its first ticks, if the
// metadata are unreadable or do not fit them.
func (r *Reader) inferMetadata() {
	var period, last int64
	look := func(record *Record, err error) bool {
		if err != nil {
			return true
		}
		if t := record.Tick; last > 0 && t.Deadline > last && t.Elapsed > 0 {
			period = (t.Deadline - last) / int64(min(t.Elapsed, math.MaxInt64))
		}
		last = record.Tick.Deadline
		return period == 0
	}
	for _, p := range r.parts {
		if !r.visit(p, 1<<tickChannel, look) {
			break
		}
	}
	if r.tick == nil {
		return
	}
	shape := controller.Shape{
		Obs: len(r.tick.Obs), Action: len(r.tick.Action), Latent: len(r.tick.Z), Nuisance: r.meta.Shape.Nuisance,
	}
	if r.hasMeta && shape == r.meta.Shape {
		return
	}
	shape.Nuisance = 0
	meta := Metadata{
		Robot: hal.Spec{Period: time.Duration(cmp.Or(period, int64(time.Millisecond)))}, Shape: shape,
		Config: r.meta.Config, Extra: r.meta.Extra,
	}
	if meta.check() == nil {
		r.meta, r.hasMeta = meta, false
		r.lacks = fmt.Errorf("the metadata record %q is unreadable", metadataName)
	}
}

// Unverifiable returns the reason why no tick can be verified, nil if ticks can.
func (r *Reader) Unverifiable() error {
	if r.lacks == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnverifiable, r.lacks)
}

// Metadata returns the metadata of the log.
func (r *Reader) Metadata() Metadata { return r.meta }

// Size returns the length of the file in bytes.
func (r *Reader) Size() int64 { return r.size }

// Cut returns the missing end, nil for a closed log.
func (r *Reader) Cut() *Cut { return r.cut }

// Damage returns the damaged parts of the file, each a *DamageError. A log with damage
// never counts as verified.
func (r *Reader) Damage() (found []error) {
	for _, p := range r.parts {
		if p.damage != nil {
			found = append(found, p.damage)
		}
	}
	return found
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.unpacker != nil {
		r.unpacker.Close()
	}
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// read decodes a record of the preamble.
func (r *Reader) read(op mcap.OpCode, at, length int64) error {
	if length > maxShort && (op != mcap.OpAttachment || length > maxAttachment) {
		return damaged("a record (%s) of %d bytes", op, length)
	}
	data, err := r.bytes(at+recordLead, at+recordLead+length)
	if err != nil {
		return err
	}
	err = guard(func() error { return r.decodeRecord(op, at, data) })
	if err == nil {
		return nil
	}
	return damaged("%s: %w", op, err)
}

// guard turns a panic of a parser into an error. Some parsers of the library do not
// check lengths.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("impossible content: %v", p)
		}
	}()
	return f()
}

func (r *Reader) decodeRecord(op mcap.OpCode, at int64, data []byte) error {
	switch op {
	case mcap.OpHeader:
		h, err := mcap.ParseHeader(data)
		if err != nil {
			return err
		}
		r.ours = strings.Contains(h.Library, library)
	case mcap.OpSchema:
		return r.decodeSchema(data)
	case mcap.OpChannel:
		return r.decodeChannel(data)
	case mcap.OpMetadata:
		return r.decodeMetadata(at, data)
	case mcap.OpAttachment:
		return r.decodeAttachment(data)
	}
	return nil
}

func (r *Reader) decodeSchema(data []byte) error {
	s, err := mcap.ParseSchema(data)
	if err != nil {
		return err
	}
	r.schemas[s.ID] = s.Name
	return nil
}

// decodeChannel stores a channel if its topic and message are those of a log.
func (r *Reader) decodeChannel(data []byte) error {
	c, err := mcap.ParseChannel(data)
	if err != nil {
		return err
	}
	delete(r.channels, c.ID)
	for i, t := range topics {
		if t.name == c.Topic && r.schemas[c.SchemaID] == string(t.message.ProtoReflect().Descriptor().FullName()) {
			r.channels[c.ID] = i
		}
	}
	return nil
}

func (r *Reader) decodeMetadata(at int64, data []byte) error {
	m, err := mcap.ParseMetadata(data)
	if err != nil {
		return err
	}
	switch m.Name {
	case metadataName:
		r.announced = m.Metadata[keyPreamble] != ""
		meta, err := decodeMetadata(m.Metadata)
		if errors.Is(err, ErrVersion) {
			r.foreign = err // if the checksum of the metadata agrees
			return nil
		}
		if err != nil {
			return err
		}
		meta.Config, meta.Extra = r.meta.Config, r.meta.Extra
		r.meta, r.hasMeta = meta, true
	case extraName:
		r.meta.Extra = m.Metadata
	case preambleName:
		sum, err := r.checksum(0, at)
		r.summed, r.sumAgrees = true, preambleSum(sum) == m.Metadata[keyPreamble]
		return err
	}
	return nil
}

// decodeAttachment keeps the attachments config.yaml and controller.json.
func (r *Reader) decodeAttachment(data []byte) error {
	if len(data) < 8+8+4+4+8+4 {
		return io.ErrUnexpectedEOF
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	name, rest, ok := cutString(body[16:]) // after log time and creation time
	if (sum != 0 || r.ours) && crc32.ChecksumIEEE(body) != sum {
		return fmt.Errorf("wrong checksum of %.40q", name)
	}
	if !ok {
		return io.ErrUnexpectedEOF
	}
	_, rest, ok = cutString(rest)
	if !ok || len(rest) < 8 || binary.LittleEndian.Uint64(rest) != uint64(len(rest)-8) {
		return io.ErrUnexpectedEOF
	}
	switch name {
	case configFile:
		r.meta.Config = rest[8:]
	case controllerFile:
		r.control = rest[8:]
	}
	return nil
}

// cutString removes a length-prefixed string from b.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 4 {
		return "", nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return "", nil, false
	}
	return string(b[4 : 4+n]), b[4+n:], true
}

// Records iterates over the messages in file order. At a damaged part it yields a
// *DamageError and continues after it. Any other error comes from the disk and is the
// last. The Record and its Tick are valid only until the next iteration; the caller may
// keep the other pointers.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for _, p := range r.parts {
			if !r.visit(p, allChannels, yield) {
				return
			}
		}
	}
}

// visit yields the messages of a part on some channels and reports whether to continue.
func (r *Reader) visit(p part, channels channelSet, yield func(*Record, error) bool) bool {
	if p.damage != nil {
		return yield(nil, p.damage)
	}
	data, err := r.load(p)
	if err != nil {
		return yield(nil, p.place(err))
	}
	if p.op == mcap.OpMessage {
		return r.message(p, data, channels, yield)
	}
	for len(data) > 0 {
		op, record, ok := firstOf(data)
		if !ok {
			return yield(nil, p.place(damaged("a record ends behind its chunk")))
		}
		data = data[recordLead+len(record):]
		if op == mcap.OpMessage {
			if !r.message(p, record, channels, yield) {
				return false
			}
			continue
		}
		// Other programs put schemas and channels into chunks.
		if op == mcap.OpSchema || op == mcap.OpChannel {
			if len(record) > maxShort {
				return yield(nil, p.place(damaged("a record (%s) of %d bytes", op, len(record))))
			}
			if err := guard(func() error { return r.decodeRecord(op, p.offset, record) }); err != nil {
				return yield(nil, p.place(damaged("%s: %w", op, err)))
			}
		}
	}
	return true
}

// place adds the place to a DamageError. It returns other errors unchanged.
func (p part) place(err error) error {
	var d *DamageError
	if !errors.As(err, &d) {
		return err
	}
	return &DamageError{Offset: p.offset, End: p.end(), Err: d.Err}
}

// load returns the records of a part, unpacked and checked.
func (r *Reader) load(p part) ([]byte, error) {
	if p.length > maxRecord {
		return nil, damaged("a record of %d bytes is larger than any that a writer makes", p.length)
	}
	start := p.offset + recordLead
	if p.op == mcap.OpChunk { // check the lengths before memory is allocated
		head, err := r.bytes(start, min(start+chunkFields, p.end()))
		if err != nil {
			return nil, err
		}
		if !beginsChunk(head, p.length) {
			return nil, damaged("the lengths in a chunk do not agree")
		}
	}
	data, err := r.bytes(start, p.end())
	if err != nil || p.op == mcap.OpMessage {
		return data, err
	}
	chunk, err := mcap.ParseChunk(data)
	if err != nil {
		return nil, damaged("a chunk: %w", err)
	}
	body, err := r.unpack(chunk)
	if err != nil {
		return nil, damaged("a chunk: %w", err)
	}
	if chunk.UncompressedCRC != 0 && crc32.ChecksumIEEE(body) != chunk.UncompressedCRC {
		return nil, damaged("wrong checksum of a chunk")
	}
	return body, nil
}

func (r *Reader) unpack(c *mcap.Chunk) ([]byte, error) {
	if most := r.maxChunk(); c.UncompressedSize > most {
		return nil, fmt.Errorf("chunk of %d bytes (at most %d)", c.UncompressedSize, most)
	}
	var packed io.Reader
	switch mcap.CompressionFormat(c.Compression) {
	case mcap.CompressionNone:
		return c.Records, nil
	case mcap.CompressionZSTD:
		var err error
		if packed, err = r.unzstd(c.Records); err != nil {
			return nil, err
		}
	case mcap.CompressionLZ4:
		packed = lz4.NewReader(bytes.NewReader(c.Records))
	default:
		return nil, fmt.Errorf("unknown compression %.20q", c.Compression)
	}
	body := make([]byte, c.UncompressedSize)
	if n, err := io.ReadFull(packed, body); err != nil {
		return nil, fmt.Errorf("chunk of %d bytes instead of %d (%w)", n, c.UncompressedSize, err)
	}
	switch n, err := io.CopyN(io.Discard, packed, 1); {
	case n > 0:
		return nil, fmt.Errorf("chunk of more than %d bytes", c.UncompressedSize)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return body, nil
}

// unzstd returns a reader that decompresses.
func (r *Reader) unzstd(packed []byte) (io.Reader, error) {
	source := bytes.NewReader(packed)
	if r.unpacker != nil {
		return r.unpacker, r.unpacker.Reset(source)
	}
	var err error
	r.unpacker, err = zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxRecord))
	return r.unpacker, err
}

// message yields a message if its channel is in channels.
func (r *Reader) message(p part, data []byte, channels channelSet, yield func(*Record, error) bool) bool {
	var m mcap.Message
	if err := m.PopulateFrom(data, false); err != nil {
		return yield(nil, p.place(damaged("a message: %w", err)))
	}
	channel, ok := r.channels[m.ChannelID]
	if !ok || !channels.has(channel) {
		return true
	}
	record := &Record{
		Topic: topics[channel].name, LogTime: m.LogTime, Offset: p.offset, channel: channel, data: m.Data,
	}
	if most := r.mostBytes(channel); len(m.Data) > most {
		return yield(nil, p.place(damaged("%s: a message of %d bytes, at most %d", record.Topic, len(m.Data), most)))
	}
	if err := r.decode(record, channel, m.Data); err != nil {
		return yield(nil, p.place(damaged("%s: %w", record.Topic, err)))
	}
	return yield(record, nil)
}

func (r *Reader) decode(record *Record, channel int, data []byte) (err error) {
	m := topics[channel].message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *flightlogpb.Tick:
		if r.tick == nil {
			r.tick = controller.NewTick(controller.Shape{Obs: len(m.Obs), Action: len(m.Action), Latent: len(m.Z)})
		}
		record.Tick = r.tick
		return decodeTick(r.tick, m)
	case *flightlogpb.Label:
		record.Label, err = decodeLabel(m)
	case *flightlogpb.Request:
		record.Request, err = decodeRequest(m)
	case *flightlogpb.Plan:
		record.Plan = decodePlan(m)
	case *flightlogpb.Event:
		record.Event, err = decodeEvent(m)
	case *flightlogpb.Timing:
		record.Timing = decodeTiming(m)
	case *flightlogpb.Snapshot:
		record.Snapshot = decodeSnapshot(m)
	case *flightlogpb.CompressedImage:
		record.Picture = r.meta.Clock.decodePicture(m)
	}
	return err
}
