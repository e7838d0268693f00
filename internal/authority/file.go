package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"optibfm/internal/safefile"
)

const (
	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"

	maxFile = 64 << 10 // bytes
)

// ErrDamaged is wrapped by the error for a file that is not a complete authority.
var ErrDamaged = errors.New("damaged file")

// Open returns the authority of a file, and makes both where there is none.
func Open(path string, hosts []string, now time.Time) (*Authority, error) {
	a, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if a, err = New(hosts, now); err != nil {
		return nil, err
	}
	if err = a.write(path, safefile.Create); errors.Is(err, fs.ErrExist) {
		return Load(path) // another run was faster
	}
	return a, err
}

// Renew replaces the authority of a file by a new one.
func Renew(path string, hosts []string, now time.Time) (*Authority, error) {
	a, err := New(hosts, now)
	if err != nil {
		return nil, err
	}
	return a, a.write(path, safefile.Replace)
}

// Load reads the authority of a file. The file must belong to this user, and no other user may read
// it.
func Load(path string) (*Authority, error) {
	f, size, err := safefile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return nil, fmt.Errorf("%s: the file of another user (uid %d)", path, owner)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others can read the key (mode %04o, want 0600)", path, info.Mode().Perm())
	}
	if size > maxFile {
		return nil, fmt.Errorf("%s: %w: %d bytes", path, ErrDamaged, size)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	a, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return a, nil
}

// parse parses the root, the issuer and the issuer's key.
func parse(data []byte) (*Authority, error) {
	var blocks [3][]byte
	for i, kind := range [...]string{certificateType, certificateType, keyType} {
		block, rest := pem.Decode(data)
		if block == nil || block.Type != kind {
			return nil, fmt.Errorf("part %d is not a %s", i+1, kind)
		}
		blocks[i], data = block.Bytes, rest
	}
	if len(bytes.TrimSpace(data)) > 0 {
		return nil, errors.New("more than three parts")
	}
	root, err := x509.ParseCertificate(blocks[0])
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	issuer, err := x509.ParseCertificate(blocks[1])
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	if err := errors.Join(root.CheckSignatureFrom(root), issuer.CheckSignatureFrom(root)); err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(blocks[2])
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(issuer.PublicKey) {
		return nil, errors.New("the key is not that of the issuer")
	}
	return &Authority{root: root, issuer: issuer, key: key}, nil
}

// write writes the file with safefile.Create or safefile.Replace.
func (a *Authority) write(path string, place func(string, fs.FileMode, func(io.Writer) error) error) error {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, block := range []pem.Block{
		{Type: certificateType, Bytes: a.root.Raw}, {Type: certificateType, Bytes: a.issuer.Raw}, {Type: keyType, Bytes: der},
	} {
		if err := pem.Encode(&text, &block); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return place(path, 0o600, func(w io.Writer) error {
		_, err := text.WriteTo(w)
		return err
	})
}

// Remove removes the file and its key.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return safefile.SyncDir(filepath.Dir(path))
}

// PEM returns the root certificate in PEM.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: a.root.Raw})
}
