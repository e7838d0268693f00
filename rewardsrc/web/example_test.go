package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/web"
)

// A console on a free port of this machine: the host shows it what happens and
// polls it for labels; the code lets one device in, once.
func Example() {
	cfg := web.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	src, err := web.Open(cfg, web.Options{
		About: web.About{Robot: "rover"}, Period: 20 * time.Millisecond,
		Stop: func(by string, _ bool) { fmt.Println("halt: STOP on", by) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer src.Halt()

	src.Show(web.View{Tick: 1, Mode: "armed", DGap: 0.3})
	src.Ask(rewardsrc.Request{ID: 1, Tick: 1, Until: 250, State: rewardsrc.Open})
	fmt.Println("labels:", src.Poll(make([]rewardsrc.Label, 8)))

	// What the page does with the code behind the #.
	address, token, _ := strings.Cut(src.Pairing().URL, "/#")
	for range 2 {
		request, _ := http.NewRequest(http.MethodPost, address+"/pair", strings.NewReader(`{"token":"`+token+`"}`))
		request.Header.Set("Origin", address)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer.Body.Close()
		fmt.Println("pairing:", answer.Status)
	}

	// Output:
	// labels: 0
	// pairing: 204 No Content
	// pairing: 403 Forbidden
}
