package flightlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/foxglove/mcap/go/mcap"
)

// summaryPiece is the largest part of the summary in memory, bytes.
const summaryPiece = 1 << 20

// summary writes the records that close an MCAP file: data end, summary, offsets of its
// groups, footer. The library can do this only for a file that it wrote from the start.
type summary struct {
	w     *Writer
	start int64  // of the summary section
	crc   uint32 // of it
	group []mcap.SummaryOffset
}

// writeSummary closes the file. After an error the file is as it was.
func (w *Writer) writeSummary() error {
	before := w.extent
	if err := w.out.WriteDataEnd(&mcap.DataEnd{DataSectionCRC: w.crc}); err != nil {
		return err
	}
	if err := w.append(); err != nil {
		return err
	}
	s := summary{w: w, start: w.size}
	if err := s.write(); err != nil {
		w.out.buf.Reset()
		w.cutBack(before)
		return err
	}
	return nil
}

func (s *summary) write() error {
	out := s.w.out
	groups := []struct {
		op    mcap.OpCode
		write func() error
	}{
		{mcap.OpSchema, func() error { return out.declareSchemas(s.w.channels, s.w.named) }},
		{mcap.OpChannel, func() error { return out.declareChannels(s.w.channels) }},
		{mcap.OpStatistics, s.statistics},
		{mcap.OpChunkIndex, s.chunkIndexes},
		{mcap.OpAttachmentIndex, func() error { return each(s.w.attachments, out.WriteAttachmentIndex) }},
		{mcap.OpMetadataIndex, func() error { return each(s.w.metadata, out.WriteMetadataIndex) }},
	}
	for _, g := range groups {
		if err := s.add(g.op, g.write); err != nil {
			return err
		}
	}
	return s.finish()
}

func each[T any](all []T, write func(T) error) error {
	for _, x := range all {
		if err := write(x); err != nil {
			return err
		}
	}
	return nil
}

func (s *summary) statistics() error {
	stats := s.w.written
	n := bits.OnesCount(uint(s.w.channels))
	stats.SchemaCount, stats.ChannelCount = uint16(n), uint32(n)
	return s.w.out.WriteStatistics(&stats)
}

func (s *summary) chunkIndexes() error {
	return s.w.index.pieces(func(records []byte) error {
		s.w.out.buf.Write(records)
		return s.drain(summaryPiece)
	})
}

// add writes a group of records and stores its offset.
func (s *summary) add(op mcap.OpCode, write func() error) error {
	start := s.w.size
	if err := write(); err != nil {
		return fmt.Errorf("summary: %s: %w", op, err)
	}
	if err := s.drain(0); err != nil {
		return err
	}
	if length := s.w.size - start; length > 0 {
		s.group = append(s.group, mcap.SummaryOffset{
			GroupOpcode: op, GroupStart: uint64(start), GroupLength: uint64(length),
		})
	}
	return nil
}

// drain writes out to the file if it holds more than limit bytes.
func (s *summary) drain(limit int) error {
	if s.w.out.buf.Len() <= limit {
		return nil
	}
	s.crc = crc32.Update(s.crc, crc32.IEEETable, s.w.out.buf.Bytes())
	return s.w.append()
}

// finish writes the offsets of the groups, the footer and the magic.
func (s *summary) finish() error {
	offsets := s.w.size
	for i := range s.group {
		if err := s.w.out.WriteSummaryOffset(&s.group[i]); err != nil {
			return err
		}
	}
	footer := binary.LittleEndian.AppendUint64([]byte{byte(mcap.OpFooter)}, 8+8+4)
	footer = binary.LittleEndian.AppendUint64(footer, uint64(s.start))
	footer = binary.LittleEndian.AppendUint64(footer, uint64(offsets))
	s.w.out.buf.Write(footer)
	s.crc = crc32.Update(s.crc, crc32.IEEETable, s.w.out.buf.Bytes())
	s.w.out.buf.Write(binary.LittleEndian.AppendUint32(nil, s.crc))
	s.w.out.buf.Write(mcap.Magic)
	return s.w.append()
}
