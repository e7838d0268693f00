package link_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/link"
	"optibfm/internal/rigtest"
)

func TestReceiveFile_ReturnsTheSentFileOrNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	rigtest.Must(t, os.WriteFile(path, []byte("weights"), 0o600))
	sent, err := os.Open(path)
	rigtest.Must(t, err)
	ours, theirs, err := link.Sockets("test")
	rigtest.Must(t, err)
	defer theirs.Close()
	rigtest.Must(t, link.SendFile(ours, sent))
	rigtest.Must(t, sent.Close())
	rigtest.Must(t, ours.Close())

	received, err := link.ReceiveFile(theirs)
	rigtest.Must(t, err)
	defer received.Close()
	content := make([]byte, 7)
	if _, err := received.ReadAt(content, 0); err != nil || !bytes.Equal(content, []byte("weights")) {
		t.Errorf("got %q, %v", content, err)
	}
	if none, err := link.ReceiveFile(theirs); none != nil || err != nil {
		t.Errorf("after the end: %v, %v", none, err)
	}
	plain, other, err := link.Sockets("test")
	rigtest.Must(t, err)
	defer other.Close()
	_, err = plain.Write([]byte{0})
	rigtest.Must(t, err)
	rigtest.Must(t, plain.Close())
	if f, err := link.ReceiveFile(other); f != nil || err == nil {
		t.Errorf("without a file: %v, %v", f, err)
	}
}
