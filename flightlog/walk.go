package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

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
// The checksums in the footer and the data end record of a closed log cover every byte.
// If they agree, the walker reads only the leads of the records. Otherwise it checks
// chunks by their checksums, message indexes by their chunks, the preamble by its
// checksum, and the sequence numbers of messages, which show missing and repeated
// blocks. After a damaged part it continues at the next whole chunk.
type walker struct {
	*Reader
	limit  int64 // end of the data section if a footer states it, else of the file
	closed bool  // the file ends with the magic of a closed log
	strict bool  // the checksums do not cover the log

	indexes []byte // message indexes that must follow the last chunk
	next    [numChannels]uint32
}

// walk finds the parts of the file.
func (r *Reader) walk() error {
	if r.size == 0 {
		return fmt.Errorf("%w: the file is empty, so it has no labels: the run died before it began, or a copy failed",
			ErrNotALog)
	}
	var magic [8]byte
	if _, err := r.src.ReadAt(magic[:], 0); err != nil || !bytes.Equal(magic[:], mcap.Magic) {
		if instead := safefile.Instead(magic[:]); instead != "" {
			return fmt.Errorf("%w: %s", ErrNotALog, instead)
		}
		return fmt.Errorf("%w: it does not begin like an MCAP file", ErrNotALog)
	}
	w := walker{Reader: r, limit: r.size, strict: true}
	if err := w.readFooter(); err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return err
	}
	if r.foreign != nil && (!w.strict || !r.summed || r.sumAgrees) {
		return r.foreign
	}
	inPreamble := r.cut != nil && len(r.parts) == 0
	switch {
	case !w.strict || inPreamble:
	case r.announced != r.summed:
		w.damage(firstRecord, firstRecord, errors.New("the checksum of the metadata is missing"))
	case r.summed && !r.sumAgrees:
		w.damage(firstRecord, firstRecord, errors.New("the checksum of the metadata does not agree"))
	}
	return nil
}

// readFooter determines whether the log was closed, the end of its data section, and
// whether its checksums cover it.
func (w *walker) readFooter() error {
	tail, err := w.bytes(max(firstRecord, w.size-footerLength-int64(len(mcap.Magic))), w.size)
	if err != nil {
		return err
	}
	footer, closed := bytes.CutSuffix(tail, mcap.Magic)
	w.closed = closed
	if len(footer) != footerLength || !isLead(footer, mcap.OpFooter, footerLength) {
		return nil
	}
	at := w.size - int64(len(tail))
	start := int64(binary.LittleEndian.Uint64(footer[recordLead:]))
	if start == 0 { // no summary
		start = at
	}
	if start < firstRecord+dataEndLength || start > at {
		return nil
	}
	same, err := w.agrees(start, at+footerLength-4, binary.LittleEndian.Uint32(footer[footerLength-4:]))
	if err != nil || !same {
		return err
	}
	w.limit = start - dataEndLength
	agrees, stated, err := w.dataAgrees(w.limit)
	w.strict = !agrees || !stated
	return err
}

// dataAgrees compares the bytes before an offset with the checksum in the data end
// record there. Logs of other programs may have none.
func (w *walker) dataAgrees(at int64) (agrees, stated bool, err error) {
	end, err := w.bytes(at, min(at+dataEndLength, w.size))
	if err != nil || len(end) < dataEndLength || !isLead(end, mcap.OpDataEnd, dataEndLength) {
		return false, false, err
	}
	sum := binary.LittleEndian.Uint32(end[recordLead:])
	if sum == 0 {
		return !w.ours(), false, nil
	}
	agrees, err = w.agrees(0, at, sum)
	return agrees, true, err
}

// agrees compares the checksum of a part of the file. 0 means no checksum and agrees.
func (w *walker) agrees(from, to int64, sum uint32) (bool, error) {
	if sum == 0 {
		return true, nil
	}
	got, err := w.checksum(from, to)
	return got == sum, err
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

// isLead reports whether b begins with the lead of a record: opcode and length.
func isLead(b []byte, op mcap.OpCode, length int) bool {
	return mcap.OpCode(b[0]) == op && binary.LittleEndian.Uint64(b[1:]) == uint64(length-recordLead)
}

// run visits the records of the data section.
func (w *walker) run() error {
	at := firstRecord
	for at < w.limit {
		next, err := w.step(at)
		if errors.Is(err, errDataEnd) {
			break
		}
		if err != nil {
			if next, err = w.pass(at, err); err != nil {
				return err
			}
		}
		at = next
	}
	return w.finish(at)
}

// errDataEnd is returned by step at the record that ends the data section.
var errDataEnd = errors.New("end of the data section")

// step reads what is at an offset and returns the offset after it.
func (w *walker) step(at int64) (next int64, err error) {
	if n := int64(len(w.indexes)); n > 0 {
		got, err := w.bytes(at, min(at+n, w.limit))
		if err == nil && !bytes.Equal(got, w.indexes) {
			err = damaged("a message index does not agree with its chunk")
		}
		if err == nil {
			w.indexes = nil
		}
		return at + n, err
	}
	op, length, err := w.lead(at)
	if err != nil {
		return 0, err
	}
	if op == mcap.OpDataEnd && length == dataEndLength-recordLead && w.limit == w.size {
		return at, errDataEnd
	}
	return at + recordLead + length, w.take(op, at, length)
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

// take reads the record at an offset. An error other than DamageError is an error of the
// disk or ErrVersion.
func (w *walker) take(op mcap.OpCode, at, length int64) error {
	switch op {
	case mcap.OpChunk:
		return w.takeChunk(part{op: op, offset: at, length: length})
	case mcap.OpMessage:
		w.parts = append(w.parts, part{op: op, offset: at, length: length})
		return nil
	case mcap.OpMessageIndex:
		if w.strict && w.ours() {
			return damaged("a message index without its chunk")
		}
		return nil
	case mcap.OpHeader:
		if at != firstRecord {
			return damaged("a second header")
		}
	case mcap.OpSchema, mcap.OpChannel, mcap.OpMetadata, mcap.OpAttachment:
	default:
		if w.strict {
			return damaged("no record of a log has the opcode %#02x", byte(op))
		}
		return nil // an extension of the format
	}
	err := w.read(op, at, length)
	var damage *DamageError
	if next := at + recordLead + length; errors.As(err, &damage) && w.beginsRecord(next) {
		w.damage(at, next, damage.Err) // the records after it are readable
		return nil
	}
	return err
}

// beginsRecord reports whether a record that fits into the file begins at an offset.
func (w *walker) beginsRecord(at int64) bool {
	op, length, err := w.lead(at)
	return err == nil && op > mcap.OpReserved && op <= mcap.OpDataEnd && length <= maxRecord
}

// takeChunk checks a chunk and the sequence numbers of its messages.
func (w *walker) takeChunk(p part) error {
	if !w.strict {
		w.parts = append(w.parts, p)
		return nil
	}
	body, err := w.load(p)
	if err != nil {
		return err
	}
	content, ok := survey(body)
	if !ok || !w.ours() {
		w.parts = append(w.parts, p)
		return nil
	}
	records, err := newRecords()
	if err == nil {
		err = records.writeIndexes(&content.index, nil)
	}
	if err != nil {
		return err
	}
	w.indexes = records.buf.Bytes()
	missing, next := false, w.next
	for i, entries := range content.index {
		switch first := content.first[i]; {
		case len(entries) == 0:
		case first < w.next[i]:
			w.damage(p.offset, p.offset+recordLead+p.length, errors.New("a block of the file occurs twice"))
			return nil
		default:
			missing = missing || first > w.next[i]
			next[i] = first + uint32(len(entries))
		}
	}
	w.next = next
	if missing && len(w.Damage()) == 0 {
		w.damage(p.offset, p.offset, errors.New("a block of the file is missing"))
	}
	w.parts = append(w.parts, p)
	return nil
}

// content holds the messages of a chunk by channel.
type content struct {
	first [numChannels]uint32 // sequence numbers
	index [numChannels][]mcap.MessageIndexEntry
}

// survey lists the messages of a chunk. ok is false if the chunk is malformed.
func survey(body []byte) (found content, ok bool) {
	const fields = 2 + 4 + 8 // of a message, up to its log time
	for at := 0; at < len(body); {
		record := body[at:]
		if len(record) < recordLead {
			return found, false
		}
		length := binary.LittleEndian.Uint64(record[1:])
		if length > uint64(len(record)-recordLead) {
			return found, false
		}
		if mcap.OpCode(record[0]) == mcap.OpMessage && length >= fields {
			message := record[recordLead:]
			i := int(binary.LittleEndian.Uint16(message)) - 1
			if i < 0 || i >= numChannels {
				return found, false
			}
			if len(found.index[i]) == 0 {
				found.first[i] = binary.LittleEndian.Uint32(message[2:])
			}
			entry := mcap.MessageIndexEntry{Timestamp: binary.LittleEndian.Uint64(message[6:]), Offset: uint64(at)}
			found.index[i] = append(found.index[i], entry)
		}
		at += recordLead + int(length)
	}
	return found, true
}

// pass records a damaged or cut place and returns the offset at which the walk
// continues, the limit if it ends.
func (w *walker) pass(at int64, cause error) (next int64, err error) {
	var damage *DamageError
	if !errors.As(cause, &damage) {
		return 0, cause
	}
	indexes := w.indexes
	w.indexes = nil
	next, found, err := w.findChunk(at)
	if err != nil {
		return 0, err
	}
	if !found && !w.closed {
		if reason, torn, err := w.torn(at, indexes); torn || err != nil {
			w.cut = &Cut{Offset: at, Bytes: w.size - at, Reason: reason}
			return w.limit, err
		}
	}
	w.damage(at, next, damage.Err)
	return next, nil
}

// damage records damaged bytes. The records after them are a separate part.
func (w *walker) damage(from, to int64, cause error) {
	w.parts = append(w.parts, part{offset: from, damage: &DamageError{Offset: from, End: to, Err: cause}})
}

// findChunk searches for a whole chunk from an offset on. Without one it returns the
// limit.
func (w *walker) findChunk(from int64) (at int64, found bool, err error) {
	const window = 1 << 20
	for from < w.limit {
		b, err := w.bytes(from, min(from+window, w.limit))
		if err != nil {
			return 0, false, err
		}
		for i := range b {
			if b[i] != byte(mcap.OpChunk) || i+recordLead <= len(b) && binary.LittleEndian.Uint64(b[i+1:]) > maxRecord {
				continue
			}
			whole, err := w.isChunk(from + int64(i))
			if whole || err != nil {
				return from + int64(i), whole, err
			}
		}
		from += int64(len(b))
	}
	return w.limit, false, nil
}

// isChunk reports whether a whole chunk is at an offset.
func (w *walker) isChunk(at int64) (bool, error) {
	op, length, err := w.lead(at)
	if err == nil && op == mcap.OpChunk {
		var head []byte
		head, err = w.bytes(at+recordLead, at+recordLead+min(length, chunkFields))
		if err == nil && !beginsChunk(head, length) {
			return false, nil
		}
	}
	if err == nil {
		_, err = w.load(part{op: mcap.OpChunk, offset: at, length: length})
	}
	if errors.Is(err, ErrDamaged) {
		return false, nil
	}
	return err == nil, err
}

// finish checks the records after the data section.
func (w *walker) finish(at int64) error {
	if at == w.size { // never closed, or damaged to the end
		if w.cut == nil && !w.closed {
			w.cut = &Cut{Offset: at, Reason: "the file ends without a footer"}
		}
		return nil
	}
	if !w.strict {
		return nil
	}
	if len(w.indexes) > 0 {
		w.damage(at, at, errors.New("message indexes are missing"))
	}
	agrees, _, err := w.dataAgrees(at)
	if err != nil {
		return err
	}
	if !agrees && len(w.Damage()) == 0 {
		w.damage(firstRecord, at, errors.New("the checksum of the data section does not agree"))
	}
	if w.limit < w.size { // the footer is whole
		return nil
	}
	return w.finishSummary(at + dataEndLength)
}
