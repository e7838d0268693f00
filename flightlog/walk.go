package flightlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/internal/safefile"
)

// Lengths of the records at the end of a log.
const (
	dataEndLength = recordLead + 4
	footerLength  = recordLead + 8 + 8 + 4
)

// firstRecord is the offset of the first record.
var firstRecord = int64(len(mcap.Magic))

// walker finds the parts of a log, its damage and its cut.
//
// The checksums in the footer and the data end record of a closed log cover every byte. If they
// agree, the walker reads only the leads of the records. Otherwise it reads until a checksum, a
// message index or a sequence number is wrong, and continues at the next whole chunk.
type walker struct {
	*Reader
	closed  bool  // the file ends like a closed log
	damages bool  // there is damage
	covered bool  // the checksums cover the log and agree
	limit   int64 // end of the data section if covered, else of the file
	sound   int64 // end of what the walker has checked
	summary int64 // offset of the summary after a data end, else 0
	seen    map[firsts]bool
	next    firsts // last messages
}

// firsts holds a sequence number for each channel, counted from 1; 0: no message.
type firsts [numChannels]uint32

// walk finds the parts of the file.
func (r *Reader) walk() error {
	if err := r.checkMagic(); err != nil {
		return err
	}
	w := walker{Reader: r, limit: r.size, sound: firstRecord, seen: make(map[firsts]bool)}
	if err := w.readFooter(); err != nil {
		return err
	}
	for at := firstRecord; at < w.limit; {
		next, err := w.record(at)
		if err != nil {
			next, err = w.skip(at, err)
		}
		if err != nil {
			return err
		}
		at = next
	}
	if !w.closed && r.cut == nil {
		r.cut = &Cut{Offset: r.size}
	}
	if r.foreign != nil && (w.covered || !r.summed || r.sumAgrees) {
		return r.foreign
	}
	inPreamble := r.cut != nil && len(r.parts) == 0
	if !w.covered && !inPreamble && (r.announced != r.summed || r.summed && !r.sumAgrees) {
		r.damageFirst(errors.New("the metadata has no or a wrong checksum"))
	}
	return nil
}

func (r *Reader) checkMagic() error {
	if r.size == 0 {
		return fmt.Errorf("%w: the file is empty, so it has no labels: the run died before it began, or a copy failed",
			ErrNotALog)
	}
	var magic [8]byte
	if _, err := r.src.ReadAt(magic[:], 0); err == nil && bytes.Equal(magic[:], mcap.Magic) {
		return nil
	}
	if instead := safefile.Instead(magic[:]); instead != "" {
		return fmt.Errorf("%w: %s", ErrNotALog, instead)
	}
	return fmt.Errorf("%w: it does not begin like an MCAP file", ErrNotALog)
}

// readFooter determines whether the log was closed and whether its checksums cover it.
func (w *walker) readFooter() error {
	const end = footerLength + 8
	tail, err := w.bytes(max(0, w.size-end), w.size)
	if err != nil {
		return err
	}
	w.closed = bytes.HasSuffix(tail, mcap.Magic)
	if !w.closed || len(tail) < end {
		return nil
	}
	at := w.size - end
	summary := int64(cmp.Or(binary.LittleEndian.Uint64(tail[recordLead:]), uint64(at))) // 0: no summary
	if summary < firstRecord+dataEndLength || summary > at {
		return nil
	}
	limit := summary - dataEndLength
	_, err = w.dataEnd(part{offset: limit, length: dataEndLength - recordLead})
	if err == nil {
		_, err = w.footer(part{offset: at, length: footerLength - recordLead})
	}
	w.summary, w.sound = 0, firstRecord
	if errors.Is(err, ErrDamaged) {
		return nil
	}
	w.covered, w.limit = err == nil, limit
	return err
}

// agrees compares a part of the file with the checksum at the end of a record. Other programs write
// 0 for none.
func (w *walker) agrees(what string, from, to int64, record []byte) error {
	sum := binary.LittleEndian.Uint32(record[len(record)-4:])
	if sum == 0 && !w.ours {
		return nil
	}
	got, err := w.checksum(from, to)
	if err == nil && got != sum {
		err = damaged("wrong checksum of %s", what)
	}
	return err
}

func (r *Reader) checksum(from, to int64) (uint32, error) {
	hash := crc32.NewIEEE()
	if _, err := io.Copy(hash, io.NewSectionReader(r.src, from, to-from)); err != nil {
		return 0, fmt.Errorf("reading bytes %d to %d: %w", from, to, err)
	}
	return hash.Sum32(), nil
}

// bytes reads a part of the file.
func (r *Reader) bytes(from, to int64) ([]byte, error) {
	b := make([]byte, max(0, to-from))
	if n, err := r.src.ReadAt(b, from); n < len(b) {
		return nil, fmt.Errorf("reading bytes %d to %d: %w", from, to, err)
	}
	return b, nil
}

// isLead reports whether b is a record with an opcode, by its length and its lead.
func isLead(b []byte, op mcap.OpCode, length int) bool {
	return len(b) == length && mcap.OpCode(b[0]) == op && binary.LittleEndian.Uint64(b[1:]) == uint64(length-recordLead)
}

// lead reads the opcode and the length of the record at an offset.
func (w *walker) lead(at int64) (op mcap.OpCode, length int64, err error) {
	head, err := w.bytes(at, min(at+recordLead, w.limit))
	if err != nil {
		return 0, 0, err
	}
	if len(head) < recordLead {
		return 0, 0, damaged("a record is cut off in its first bytes")
	}
	claimed := binary.LittleEndian.Uint64(head[1:])
	if claimed > uint64(w.limit-at-recordLead) {
		return 0, 0, damaged("a record claims %d bytes, more than there are", claimed)
	}
	return mcap.OpCode(head[0]), int64(claimed), nil
}

// damaged returns a DamageError without its place; see part.place.
func damaged(format string, args ...any) error {
	return &DamageError{Err: fmt.Errorf(format, args...)}
}

// record reads the record at an offset and returns the offset after it. An error other than a
// DamageError is of the disk.
func (w *walker) record(at int64) (next int64, err error) {
	op, length, err := w.lead(at)
	if err != nil {
		return 0, err
	}
	p := part{op: op, offset: at, length: length}
	switch op {
	case mcap.OpChunk:
		if !w.covered {
			return w.chunk(p)
		}
		w.add(p)
	case mcap.OpMessage:
		w.add(p)
	case mcap.OpMessageIndex:
		if !w.covered && w.ours {
			return 0, damaged("%w", errIndex)
		}
	case mcap.OpSchema, mcap.OpChannel:
		if w.summary == 0 {
			return w.describe(p)
		}
	case mcap.OpHeader, mcap.OpMetadata, mcap.OpAttachment:
		return w.describe(p)
	case mcap.OpDataEnd:
		var damage *DamageError
		next, err := w.dataEnd(p)
		if next == 0 || !errors.As(err, &damage) {
			return next, err
		}
		if !w.damages {
			w.damage(firstRecord, at, damage.Err)
		}
		return next, nil
	case mcap.OpFooter:
		return w.footer(p)
	case mcap.OpStatistics, mcap.OpChunkIndex, mcap.OpAttachmentIndex, mcap.OpMetadataIndex, mcap.OpSummaryOffset:
		if w.summary == 0 {
			return 0, damaged("a record (%s) without a data end", op)
		}
	default:
		if !w.covered { // else it is an extension of the format
			return 0, damaged("no record of a log has the opcode %#02x", byte(op))
		}
	}
	return p.end(), nil
}

// add adds a chunk or a message to the parts.
func (w *walker) add(p part) { w.parts, w.sound, w.summary = append(w.parts, p), p.end(), 0 }

// dataEnd compares the data section with its checksum. Without an offset in next the record is
// damaged.
func (w *walker) dataEnd(p part) (next int64, err error) {
	next = p.offset + dataEndLength
	end, err := w.bytes(p.offset, min(next, w.size))
	if err != nil {
		return 0, err
	}
	if !isLead(end, mcap.OpDataEnd, dataEndLength) {
		return 0, damaged("a data end of %d bytes", p.length)
	}
	w.summary, w.sound = next, next
	return next, w.agrees("the data section", 0, p.offset, end)
}

// footer compares the summary with its checksum. Only the magic follows.
func (w *walker) footer(p part) (next int64, err error) {
	next = p.offset + footerLength
	footer, err := w.bytes(p.offset, min(next, w.size))
	if err != nil {
		return 0, err
	}
	if w.summary == 0 || !isLead(footer, mcap.OpFooter, footerLength) {
		return 0, damaged("a footer without a data end, or of %d bytes", p.length)
	}
	if err := w.agrees("the summary", w.summary, next-4, footer); err != nil {
		return 0, err
	}
	end, err := w.endOfContent(next)
	if err != nil {
		return 0, err
	}
	rest, err := w.bytes(next, min(end, next+footerLength))
	if err != nil || bytes.HasPrefix(mcap.Magic, rest) {
		return w.limit, err
	}
	w.closed, w.sound = true, next
	return 0, damaged("bytes follow the summary")
}

// describe reads a record of the preamble. An error does not end the preamble if a record follows.
func (w *walker) describe(p part) (next int64, err error) {
	next = p.end()
	err = w.read(p.op, p.offset, p.length)
	var damage *DamageError
	if !errors.As(err, &damage) {
		return next, err
	}
	if op, length, err := w.lead(next); err != nil || op == mcap.OpReserved || op > mcap.OpDataEnd || length > maxRecord {
		return 0, damage
	}
	w.damage(p.offset, next, damage.Err)
	return next, nil
}

var errIndex = errors.New("a message index differs from its chunk")

// chunk checks a chunk, the sequence numbers of its messages and its message indexes.
func (w *walker) chunk(p part) (next int64, err error) {
	body, err := w.load(p)
	if err != nil {
		return 0, err
	}
	w.sound, w.summary = p.end(), 0
	content, ok := survey(body)
	if !ok || !w.ours {
		w.parts = append(w.parts, p)
		return p.end(), nil
	}
	w.order(p, &content)
	times, err := w.bytes(p.offset+recordLead, p.offset+recordLead+16)
	if err != nil {
		return 0, err
	}
	if binary.LittleEndian.Uint64(times) != content.start || binary.LittleEndian.Uint64(times[8:]) != content.end {
		w.damage(p.offset, p.end(), errors.New("the times of a chunk do not agree with its messages"))
	}
	want, err := newRecords()
	if err == nil {
		err = want.writeIndexes(&content.index, nil)
	}
	if err != nil {
		return 0, err
	}
	got, err := w.bytes(p.end(), min(p.end()+int64(want.buf.Len()), w.limit))
	if err != nil {
		return 0, err
	}
	for i, b := range want.buf.Bytes() {
		if i == len(got) || got[i] != b {
			return 0, damaged("%w", errIndex)
		}
		w.sound++
	}
	return w.sound, nil
}

// order adds a chunk to the parts unless its messages were read before. Sequence numbers show
// missing messages.
func (w *walker) order(p part, c *content) {
	if w.seen[c.first] {
		w.damage(p.offset, p.end(), errors.New("a block of the file occurs twice"))
		return
	}
	w.seen[c.first] = true
	missing := false
	for i, entries := range c.index {
		if len(entries) > 0 {
			missing = missing || c.first[i] != w.next[i]+1
			w.next[i] = c.first[i] - 1 + uint32(len(entries))
		}
	}
	if missing && !w.damages {
		w.damage(p.offset, p.offset, errors.New("a block of the file is missing or elsewhere"))
	}
	w.parts = append(w.parts, p)
}

// content holds the messages of a chunk by channel.
type content struct {
	first      firsts
	index      [numChannels][]mcap.MessageIndexEntry
	start, end uint64 // log times
}

// survey lists the messages of a chunk. ok is false if the chunk has none or is malformed.
func survey(body []byte) (found content, ok bool) {
	const fields = 2 + 4 + 8 // of a message, up to its log time
	found.start = math.MaxUint64
	for at := 0; at < len(body); {
		op, message, ok := firstOf(body[at:])
		if !ok {
			return found, false
		}
		if op == mcap.OpMessage && len(message) >= fields {
			i := int(binary.LittleEndian.Uint16(message)) - 1
			if i < 0 || i >= numChannels {
				return found, false
			}
			if len(found.index[i]) == 0 {
				found.first[i] = binary.LittleEndian.Uint32(message[2:]) + 1
			}
			entry := mcap.MessageIndexEntry{Timestamp: binary.LittleEndian.Uint64(message[6:]), Offset: uint64(at)}
			found.index[i] = append(found.index[i], entry)
			found.start, found.end = min(found.start, entry.Timestamp), max(found.end, entry.Timestamp)
		}
		at += recordLead + len(message)
	}
	return found, found.first != firsts{}
}

// firstOf returns the first record of the content of a chunk.
func firstOf(body []byte) (op mcap.OpCode, record []byte, ok bool) {
	if len(body) < recordLead {
		return 0, nil, false
	}
	length := binary.LittleEndian.Uint64(body[1:])
	if length > uint64(len(body)-recordLead) {
		return 0, nil, false
	}
	return mcap.OpCode(body[0]), body[recordLead : recordLead+length], true
}

// skip records that the record at an offset is damaged or cut off, and returns the offset at which
// the walk continues.
func (w *walker) skip(at int64, cause error) (next int64, err error) {
	var damage *DamageError
	if !errors.As(cause, &damage) {
		return 0, cause
	}
	from := w.sound
	next, err = w.findChunk(from)
	if err != nil {
		return 0, err
	}
	if errors.Is(cause, errIndex) {
		at = from
	}
	if next == w.size && !w.closed {
		if torn, err := w.torn(at, !errors.Is(cause, errIndex)); torn || err != nil {
			w.cut = &Cut{Offset: at, Bytes: w.size - at}
			return next, err
		}
	}
	w.damage(from, next, damage.Err)
	return next, nil
}

// damage records damaged bytes. The records after them are a separate part.
func (w *walker) damage(from, to int64, cause error) {
	w.damages = true
	w.parts = append(w.parts, part{offset: from, damage: &DamageError{Offset: from, End: to, Err: cause}})
}

// findChunk returns the offset of the next whole chunk, the limit without one.
func (w *walker) findChunk(from int64) (at int64, err error) {
	const window = 1 << 20
	for ; from < w.limit; from += window {
		b, err := w.bytes(from, min(from+window, w.limit))
		if err != nil {
			return 0, err
		}
		for i := range b {
			if b[i] != byte(mcap.OpChunk) {
				continue
			}
			at := from + int64(i)
			op, length, err := w.lead(at)
			if err == nil {
				_, err = w.load(part{op: op, offset: at, length: length})
			}
			if err == nil || !errors.Is(err, ErrDamaged) {
				return at, err
			}
		}
	}
	return w.limit, nil
}

// A process that dies during a write leaves the beginning of a record at the end of its
// log. A power failure leaves zeros in pages that the file system had not written. Both
// are a cut. Other unreadable bytes are damage: those before a readable chunk, in a
// closed log, or in a complete record.

// torn reports whether the rest of the file from an offset on is a cut. Otherwise than at the
// beginning of a record, only zeros are.
func (w *walker) torn(at int64, record bool) (bool, error) {
	end, err := w.endOfContent(at)
	if err != nil || end == at || !record {
		return end == at, err
	}
	head, err := w.bytes(at, min(end, at+recordLead+chunkFields))
	if err != nil {
		return false, err
	}
	op := mcap.OpCode(head[0])
	if len(head) < recordLead {
		return op <= mcap.OpDataEnd, nil
	}
	length := binary.LittleEndian.Uint64(head[1:])
	return op > mcap.OpReserved && op <= mcap.OpDataEnd && length > uint64(end-at-recordLead) && length <= maxRecord &&
		(op != mcap.OpChunk || beginsChunk(head[recordLead:], int64(length))), nil
}

// endOfContent returns the offset of the zeros at the end of the file.
func (w *walker) endOfContent(from int64) (int64, error) {
	const window = 1 << 16
	for end := w.size; end > from; end = max(from, end-window) {
		start := max(from, end-window)
		b, err := w.bytes(start, end)
		if err != nil {
			return 0, err
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			return start + int64(n), nil
		}
	}
	return from, nil
}

// chunkFields is the largest length of the fields before the records of a chunk.
const chunkFields = 8 + 8 + 8 + 4 + 4 + int64(len(mcap.CompressionZSTD)) + 8

var compressions = []mcap.CompressionFormat{mcap.CompressionNone, mcap.CompressionZSTD, mcap.CompressionLZ4}

// beginsChunk reports whether b can be the beginning of a chunk record of a length: the
// fields must agree. b may be cut off.
func beginsChunk(b []byte, length int64) bool {
	const name = 8 + 8 + 8 + 4 + 4
	if len(b) < name {
		return length >= name+8
	}
	size, n := binary.LittleEndian.Uint64(b[16:]), int64(binary.LittleEndian.Uint32(b[name-4:]))
	if size > maxRecord || name+n+8 > chunkFields {
		return false
	}
	if int64(len(b)) < name+n+8 {
		return true
	}
	format := mcap.CompressionFormat(b[name : name+n])
	packed := binary.LittleEndian.Uint64(b[name+n:])
	return slices.Contains(compressions, format) && packed == uint64(length-name-n-8) &&
		(format != mcap.CompressionNone || packed == size)
}
