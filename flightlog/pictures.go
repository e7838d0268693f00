package flightlog

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"optibfm/flightlog/flightlogpb"
)

// Limits of a file of pictures. A full file ends, so that MakeRoom can remove old pictures of a
// long run.
const (
	maxPicturesSize = 64 << 20
	maxPicturesTime = time.Hour
)

// Pictures wait in memory for at most picturesFlush or picturesChunk bytes; while writing fails,
// for picturesBacklog.
const (
	picturesFlush   = time.Second
	picturesChunk   = 256 << 10
	picturesBacklog = 2 << 20
)

// leastFree is the smallest value of Limits.MinFree for pictures, bytes: the last bytes of a disk
// are for labels.
const leastFree = 50e6

// keyPicturesOf in Metadata.Extra is the name of the log that a file of pictures belongs to.
const keyPicturesOf = "pictures_of"

// keySynchronised in Metadata.Extra: the wall clock was synchronised when the file of pictures
// began, so that its age is known.
const keySynchronised = "clock_synchronised"

// Picture is a picture of the robot.
type Picture struct {
	At   int64 // of its capture, ns on the clock of the log
	JPEG []byte
}

func (c Clock) pictureMessage(p Picture) *flightlogpb.CompressedImage {
	return &flightlogpb.CompressedImage{
		Timestamp: timestamppb.New(time.Unix(0, c.Wall(p.At))), Format: "jpeg", FrameId: "view", Data: p.JPEG,
	}
}

func (c Clock) decodePicture(p *flightlogpb.CompressedImage) *Picture {
	return &Picture{At: p.Timestamp.AsTime().UnixNano() - c.WallNS + c.MonoNS, JPEG: p.Data}
}

// PictureWriter writes the pictures of a log to separate files beside it, LOG.view-001.mcap and so
// on. It never delays the log: its goroutine is not that of the Writer. It is not
// safe for concurrent use.
type PictureWriter struct {
	log     string
	meta    Metadata
	minFree int64
	free    func(dir string) (int64, error)
	now     func() time.Time
	synced  func() bool

	file  *Writer // nil between files
	n     int     // of file
	begun time.Time
}

// Pictures returns a writer of the pictures of a log. It pauses while the disk has less than
// minFree bytes.
func (w *Writer) Pictures(minFree int64) *PictureWriter {
	meta := w.meta
	meta.Extra = map[string]string{keyPicturesOf: filepath.Base(w.path)}
	return &PictureWriter{
		log: w.path, meta: meta, minFree: max(minFree, leastFree), free: FreeBytes, now: w.opts.Now,
		synced: clockSynchronised,
	}
}

// Write adds a picture, which is in its file after at most picturesFlush, and waits while the disk
// is slow. After an error the picture may be lost; the next call continues.
func (p *PictureWriter) Write(picture Picture) error {
	free, err := p.free(filepath.Dir(p.log))
	if err == nil && free < p.minFree {
		err = fmt.Errorf("the disk is too full (%.3f GB free, minimum %.3f GB); delete files, or copy and release logs",
			gigabytes(free), gigabytes(p.minFree))
	}
	if err == nil && p.file == nil {
		err = p.create()
	}
	if err != nil {
		return fmt.Errorf("flightlog: writing a picture: %w", err)
	}
	if err := p.file.write(viewChannel, picture.At, p.meta.Clock.pictureMessage(picture)); err != nil {
		return p.leave(err)
	}
	if p.file.chunk.size() >= picturesChunk {
		if err := p.file.retry(); err != nil {
			return p.leave(err)
		}
	}
	if p.file.size >= maxPicturesSize || p.now().Sub(p.begun) >= maxPicturesTime {
		return p.Close()
	}
	return nil
}

// Flush writes the pictures that wait in memory. Call it after some time without a picture.
func (p *PictureWriter) Flush() error {
	if p.file == nil {
		return nil
	}
	return p.leave(p.file.Flush())
}

// leave leaves a lost file, so that a later Write starts another.
func (p *PictureWriter) leave(err error) error {
	if errors.Is(err, ErrLost) {
		_ = p.file.Close() // fails as err did
		p.file = nil
	}
	return err
}

// Close ends the present file. A later Write starts another.
func (p *PictureWriter) Close() error {
	if p.file == nil {
		return nil
	}
	file := p.file
	p.file = nil
	return file.Close()
}

// create creates the next file, which others than owner and group cannot read.
func (p *PictureWriter) create() error {
	p.n++
	path := fmt.Sprintf("%s.view-%03d.mcap", strings.TrimSuffix(p.log, ".mcap"), p.n)
	f, err := createLocked(path, 0o640)
	if err != nil {
		return err
	}
	// Each flush waits for the disk: with SyncEvery and pictureFile.Sync.
	options := Options{FlushEvery: picturesFlush, SyncEvery: 1, Backlog: picturesBacklog, Now: p.now}
	meta := p.meta
	if p.synced() {
		meta.note(keySynchronised, "yes")
	}
	if p.file, err = newWriter(path, pictureFile{namedFile{f, path}}, meta, viewChannels, options); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	p.begun = p.now()
	return nil
}

// pictureFile is a file of which at most one chunk waits in the page cache, so that a slow disk
// drops pictures before it delays the fsync of a label. An fsync of pictures could itself delay
// that of a label.
type pictureFile struct{ namedFile }

// Sync waits until the disk has the data. It does not wait for the directory entry and the length
// of the file, which the file system writes within seconds.
func (f pictureFile) Sync() error {
	err := unix.SyncFileRange(int(f.Fd()), 0, 0,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil // a file system without this call
}

var picturesName = regexp.MustCompile(`\.view-\d{3,}\.mcap$`)

// HoldsPictures reports whether a path has the name of a file of pictures.
func HoldsPictures(path string) bool { return picturesName.MatchString(path) }

// PictureFiles returns the paths of a log's pictures, the oldest first.
func (r *Reader) PictureFiles() []string {
	if r.path == "" {
		return nil
	}
	paths, err := filepath.Glob(escapeGlob(strings.TrimSuffix(r.path, ".mcap")) + ".view-*.mcap")
	if err != nil {
		return nil // the pattern is valid
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return !HoldsPictures(path) })
	slices.SortFunc(paths, func(a, b string) int {
		if len(a) != len(b) { // after view-999
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return paths
}

// Pictures iterates over the pictures beside a log. An error is about a damaged part or a file that
// cannot be read; the iteration continues after it. It never affects the log. The caller may keep
// the pictures.
func (r *Reader) Pictures() iter.Seq2[*Picture, error] {
	return func(yield func(*Picture, error) bool) {
		for _, path := range r.PictureFiles() {
			if !r.readPictures(path, yield) {
				return
			}
		}
	}
}

func (r *Reader) readPictures(path string, yield func(*Picture, error) bool) bool {
	file, err := openFile(path, newReader)
	if err != nil {
		return yield(nil, err)
	}
	defer func() { _ = file.Close() }()
	if file.meta.Clock != r.meta.Clock {
		return yield(nil, fmt.Errorf("flightlog: %s: the pictures are of another run", path))
	}
	for record, err := range file.Records() {
		switch {
		case err != nil && !yield(nil, fmt.Errorf("flightlog: %s: %w", path, err)):
			return false
		case err == nil && record.Picture != nil && !yield(record.Picture, nil):
			return false
		}
	}
	return true
}
