//go:build linux

package browsertest

import (
	"image"
	"image/color"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestLoad_RunsScriptsWithTheFragment(t *testing.T) {
	page := []byte(`<meta charset="utf-8"><body><script>
		document.body.dataset.seen = location.hash + " \"<>";
	</script></body>`)
	if got := Attribute(t, DOM(t, page, "a=1"), "data-seen"); got != `#a=1 "<>` {
		t.Errorf("fragment %q", got)
	}
}

func TestPicture_AppliesThemes(t *testing.T) {
	page := []byte(`<style>body { background: #fff } @media (prefers-color-scheme: dark) { body { background: #123456 } }
		</style><body></body>`)
	for theme, want := range map[string]color.RGBA{"light": {255, 255, 255, 255}, "dark": {0x12, 0x34, 0x56, 255}} {
		r, g, b, _ := Picture(t, page, image.Pt(200, 200), theme).At(100, 100).RGBA()
		if got := (color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}); got != want {
			t.Errorf("%s: %v, want %v", theme, got, want)
		}
	}
}

func TestLoad_HasNoNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the browser reached a server")
	}))
	defer server.Close()
	page := []byte(`<body><script>
		const image = new Image();
		image.onerror = () => { document.body.dataset.network = "none"; };
		image.src = "` + server.URL + `/x.png";
	</script></body>`)
	Load(t, page, "", image.Pt(200, 200)).Until("document.body.dataset.network", "none")
}

// failed counts the errors of a test.
type failed struct {
	testing.TB
	errors int
}

func (f *failed) Errorf(string, ...any) { f.errors++ }

func TestPage_ReportsErrorsAndViolations(t *testing.T) {
	for name, page := range map[string]string{
		"error": `<script>undefined.x</script>`,
		"violation": `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><body><script>0</script>
			</body>`,
	} {
		t.Run(name, func(t *testing.T) {
			browser, f := need(t, isolated), &failed{TB: t}
			t.Cleanup(func() {
				if f.errors == 0 {
					t.Error("not reported")
				}
			})
			browser.Page(f, image.Pt(200, 200)).open([]byte(page), "")
		})
	}
}

func TestDrive_RunsScriptsInSpiteOfThePolicy(t *testing.T) {
	page := []byte(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><body>
		<script>setTimeout(() => { window.seen = 1; }, 900);</script></body>`)
	var got int
	if Drive(t, page, "", "200,200", "return window.seen;", &got); got != 1 {
		t.Errorf("got %d", got)
	}
}
