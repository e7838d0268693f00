package web

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/browsertest"
	"optibfm/internal/fatal"
)

// certutil makes the folder of a user who trusts a root certificate in Chromium.
func certutil(t *testing.T, root []byte) (home string) {
	t.Helper()
	program, err := exec.LookPath("certutil")
	if err != nil {
		t.Skip("no certutil in PATH: install it (apt-get install libnss3-tools)")
	}
	home = t.TempDir()
	db, file := filepath.Join(home, ".pki", "nssdb"), filepath.Join(home, "root.crt")
	fatal.If(t, os.MkdirAll(db, 0o700))
	fatal.If(t, os.WriteFile(file, root, 0o600))
	for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-n", "robot", "-t", "C,,", "-i", file}} {
		if out, err := exec.Command(program, append([]string{"-d", "sql:" + db}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return home
}

func TestPage_WarnsUntilTheRootIsTrusted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authority.pem")
	d, stopped := openForBrowser(t, func(c *Config, o *Options) { c.TLS, o.Authority = TLSSelfSigned, file })
	t.Run("a stranger", func(t *testing.T) {
		p := browsertest.Own(t, "").Page(t, phone)
		if got := p.Open(d.Pairing().URL); got != "net::ERR_CERT_AUTHORITY_INVALID" {
			t.Errorf("without the root: %q", got)
		}
	})
	t.Run("after the warning", func(t *testing.T) {
		p := openConsole(t, d, phone)
		p.Tap("menu")
		p.Eval("document.querySelector('#settings .trust').click()")
		p.UntilText("trust-sha", "^"+d.Pairing().Root+"$")
		picture(t, p, "phone-trust")
	})
	t.Run("with the root", func(t *testing.T) {
		root, _ := get(t, insecure(t), "", base(d.Server)+rootPath)
		flag := "--host-resolver-rules=MAP evil.example 127.0.0.1"
		p := browsertest.Own(t, certutil(t, root), flag).Page(t, laptop)
		byName := strings.Replace(base(d.Server), "127.0.0.1", "localhost", 1)
		for _, address := range []string{byName, d.Pairing().URL} {
			if got := p.Open(address); got != "" {
				t.Errorf("%s with the root: %s", address, got)
			}
		}
		p.UntilText("link", `\d ms`)
		p.Tap("stop")
		<-stopped
		if got := p.Open(imitate(t, file, "evil.example")); !strings.HasPrefix(got, "net::ERR_CERT") {
			t.Errorf("the stolen key imitates a site of the internet: %q", got)
		}
	})
}

// imitate serves a page with a certificate that a thief made with the key of a robot's authority.
func imitate(t *testing.T, file, host string) (url string) {
	t.Helper()
	data, err := os.ReadFile(file)
	fatal.If(t, err)
	_, data = pem.Decode(data)
	block, data := pem.Decode(data)
	issuer, err := x509.ParseCertificate(block.Bytes)
	fatal.If(t, err)
	block, _ = pem.Decode(data)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	fatal.If(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, key.(*ecdsa.PrivateKey).Public(), key)
	fatal.If(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der, issuer.Raw}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", host, 1)
}
