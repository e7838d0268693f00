package ipc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
)

func TestReceiveFile_ReturnsTheSentFileOrNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(path, []byte("weights"), 0o600))
	sent, err := os.Open(path)
	fatal.If(t, err)
	ours, theirs, err := ipc.Sockets("test")
	fatal.If(t, err)
	defer theirs.Close()
	fatal.If(t, ipc.SendFile(ours, sent))
	fatal.If(t, sent.Close())
	fatal.If(t, ours.Close())

	received, err := ipc.ReceiveFile(theirs)
	fatal.If(t, err)
	defer received.Close()
	content := make([]byte, 7)
	if _, err := received.ReadAt(content, 0); err != nil || !bytes.Equal(content, []byte("weights")) {
		t.Errorf("got %q, %v", content, err)
	}
	if none, err := ipc.ReceiveFile(theirs); none != nil || err != nil {
		t.Errorf("after the end: %v, %v", none, err)
	}
	plain, other, err := ipc.Sockets("test")
	fatal.If(t, err)
	defer other.Close()
	fatal.If(t, errtest.Of(plain.Write([]byte{0})))
	fatal.If(t, plain.Close())
	if f, err := ipc.ReceiveFile(other); f != nil || err == nil {
		t.Errorf("without a file: %v, %v", f, err)
	}
}
