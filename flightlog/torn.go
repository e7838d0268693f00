package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/foxglove/mcap/go/mcap"
)

// A process that dies during a write leaves the beginning of a record at the end of its
// log. A power failure leaves zeros in pages that the file system had not written. Both
// are a cut. Other unreadable bytes are damage: those before a readable chunk, in a
// closed log, or in a complete record.

// torn reports whether the rest of the file from an offset on is a cut, and describes
// it. indexes are the message indexes that must follow.
func (w *walker) torn(at int64, indexes []byte) (reason string, torn bool, err error) {
	end, err := w.endOfContent(at)
	if err != nil || end == at {
		return "no record, only zeros", true, err
	}
	head, err := w.bytes(at, min(end, at+recordLead+chunkFields))
	if err != nil {
		return "", false, err
	}
	if len(indexes) > 0 {
		got, err := w.bytes(at, end)
		return "the message indexes of a chunk are cut off", bytes.HasPrefix(indexes, got), err
	}
	op := mcap.OpCode(head[0])
	if len(head) < recordLead {
		return "a record is cut off in its first bytes", op <= mcap.OpDataEnd, nil
	}
	length := binary.LittleEndian.Uint64(head[1:])
	if length <= uint64(end-at-recordLead) || length > maxRecord {
		return "", false, nil
	}
	reason = fmt.Sprintf("a record (%s) is cut off", op)
	switch op {
	case mcap.OpChunk:
		return reason, beginsChunk(head[recordLead:], int64(length)), nil
	case mcap.OpDataEnd:
		return reason, length == dataEndLength-recordLead, nil
	case mcap.OpMessage:
		return reason, !w.ours(), nil
	}
	return reason, op < mcap.OpMessage && len(w.parts) == 0 || op == mcap.OpMetadata || op == mcap.OpAttachment, nil
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

// finishSummary distinguishes an unfinished summary from a damaged one.
func (w *walker) finishSummary(at int64) error {
	torn, err := w.tornSummary(at)
	if err != nil {
		return err
	}
	if torn && !w.closed {
		w.cut = &Cut{Offset: at, Bytes: w.size - at, Reason: "the summary is cut off"}
		return nil
	}
	w.damage(at, w.size, errors.New("the summary is damaged; no message is lost"))
	return nil
}

// tornSummary reports whether the file ends within the summary.
func (w *walker) tornSummary(at int64) (bool, error) {
	end, err := w.endOfContent(at)
	for err == nil && at < end {
		var head []byte
		if head, err = w.bytes(at, min(end, at+recordLead)); err != nil || len(head) < recordLead {
			return true, err
		}
		op, length := mcap.OpCode(head[0]), binary.LittleEndian.Uint64(head[1:])
		if op == mcap.OpReserved || op > mcap.OpDataEnd || length > maxRecord {
			return false, nil
		}
		at += recordLead + int64(length)
		if op == mcap.OpFooter && at < end {
			rest, err := w.bytes(at, end)
			return bytes.HasPrefix(mcap.Magic, rest), err
		}
	}
	return true, err
}
