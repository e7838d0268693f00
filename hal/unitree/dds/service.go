package dds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"optibfm/hal/unitree/idl"
)

// request is unitree_api::msg::dds_::Request_ in C.
type request struct {
	id, api   int64
	_         [2]int64       // lease, priority and noreply
	parameter unsafe.Pointer // a text
	_         [3]int64       // an empty sequence of octets
}

// response is unitree_api::msg::dds_::Response_ in C.
type response struct {
	id, api int64
	code    int32
	data    unsafe.Pointer // a text
	_       [3]int64       // a sequence of octets
}

// borrow takes the oldest message that was not taken, in memory of the library, and returns that
// memory after use. It is for messages with texts. ok is false without a message.
func (r *Reader[T]) borrow(use func(*T)) (ok bool, err error) {
	r.samples[0] = nil
	r.arguments = [5]uintptr{
		uintptr(r.entity), uintptr(unsafe.Pointer(&r.samples[0])), uintptr(unsafe.Pointer(&r.info)), 1, 1,
	}
	n, _, _ := purego.SyscallN(r.lib.call.take, r.arguments[:]...)
	runtime.KeepAlive(r)
	c := int32(n)
	if c < 0 {
		return false, fmt.Errorf("dds: take: %w", r.lib.failure(c))
	}
	if c == 0 {
		return false, nil
	}
	if ok = r.info.valid != 0; ok {
		use((*T)(r.samples[0]))
	}
	purego.SyscallN(r.lib.call.returnLoan, uintptr(r.entity), uintptr(unsafe.Pointer(&r.samples[0])), 1)
	runtime.KeepAlive(r)
	return ok, nil
}

// requestTopic and responseTopic return the topics of a service.
func requestTopic(service string) string  { return "rt/api/" + service + "/request" }
func responseTopic(service string) string { return "rt/api/" + service + "/response" }

// serviceDepth is the number of requests or responses that wait.
const serviceDepth = 10

// Client calls a service of the robot.
type Client struct {
	requests  *Writer[request]
	responses *Reader[response]
	next      int64
	name      string
}

// NewClient opens a client of a service such as motion_switcher.
func NewClient(p *Participant, service string) (*Client, error) {
	c := &Client{next: time.Now().UnixNano(), name: service} // other clients have other numbers
	var err error
	if c.requests, err = NewWriter[request](p, requestTopic(service), idl.RequestType); err != nil {
		return nil, err
	}
	c.responses, err = NewReader[response](p, responseTopic(service), idl.ResponseType, serviceDepth)
	return c, err
}

// callEvery is the time between two looks for a response.
const callEvery = 5 * time.Millisecond

// repeatAfter is the time without a response after which a request is repeated.
const repeatAfter = 400 * time.Millisecond

// busy is the code of motion_switcher for "repeat the request".
const busy = 7002

// Call sends a request and waits for its response. It repeats a request without one: the service
// may have found this client's requests before its responses. It also repeats one that the service
// is too busy for. code is 0 for success.
func (c *Client) Call(ctx context.Context, api int64, parameter string) (code int, data string, err error) {
	for c.requests.Readers() == 0 {
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("dds: service %s: not found: %w", c.name, context.Cause(ctx))
		case <-time.After(callEvery):
		}
	}
	for before := c.next; ; {
		answered, code, data, err := c.try(ctx, before, api, parameter)
		if err != nil || answered && code != busy {
			return code, data, err
		}
		if ctx.Err() != nil {
			return 0, "", fmt.Errorf("dds: service %s: no response, or busy: %w", c.name, context.Cause(ctx))
		}
		if answered {
			time.Sleep(releaseEvery)
		}
	}
}

// try sends a request once and waits up to repeatAfter for a response to it, or to an earlier
// repetition (the IDs above before).
func (c *Client) try(
	ctx context.Context, before, api int64, parameter string,
) (answered bool, code int, data string, err error) {
	text := append([]byte(parameter), 0)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&text[0])
	c.next++
	*c.requests.Message() = request{id: c.next, api: api, parameter: unsafe.Pointer(&text[0])}
	if err := c.requests.Write(); err != nil {
		return false, 0, "", err
	}
	for repeat := time.Now().Add(repeatAfter); ctx.Err() == nil && time.Now().Before(repeat); {
		ok, err := c.responses.borrow(func(r *response) {
			if answered = r.id > before && r.id <= c.next; answered {
				code, data = int(r.code), goString(uintptr(r.data))
			}
		})
		if err != nil || answered {
			return answered, code, data, err
		}
		if !ok {
			time.Sleep(callEvery)
		}
	}
	return false, 0, "", nil
}

// Serve answers the requests of a service until ctx ends: a simulated robot.
func Serve(
	ctx context.Context, p *Participant, service string, answer func(api int64, parameter string) (code int, data string),
) error {
	requests, err := NewReader[request](p, requestTopic(service), idl.RequestType, serviceDepth)
	if err != nil {
		return err
	}
	responses, err := NewWriter[response](p, responseTopic(service), idl.ResponseType)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		var failed error
		ok, err := requests.borrow(func(r *request) {
			code, data := answer(r.api, goString(uintptr(r.parameter)))
			text := append([]byte(data), 0)
			var pins runtime.Pinner
			defer pins.Unpin()
			pins.Pin(&text[0])
			*responses.Message() = response{id: r.id, api: r.api, code: int32(code), data: unsafe.Pointer(&text[0])}
			failed = responses.Write()
		})
		if err != nil || failed != nil {
			return fmt.Errorf("dds: service %s: %w", service, cmp.Or(err, failed))
		}
		if !ok {
			time.Sleep(callEvery)
		}
	}
	return nil
}

// releaseEvery is the time between two requests to release a controller.
const releaseEvery = 200 * time.Millisecond

// errRefused is the robot's refusal to release its controller.
var errRefused = errors.New("the robot refused")

// The service that owns the robot's own controller, and its functions.
const (
	MotionSwitcher = "motion_switcher"
	CheckMode      = 1001
	ReleaseMode    = 1003
)

// Controller returns the name of the robot's own controller that is active, "" for none.
func (c *Client) Controller(ctx context.Context) (name string, err error) {
	code, data, err := c.Call(ctx, CheckMode, "{}")
	if err != nil {
		return "", err
	}
	var answer struct {
		Name *string `json:"name"`
	}
	if code != 0 {
		return "", fmt.Errorf("dds: %s: the robot refuses to name its controller (code %d)", c.name, code)
	}
	if err := json.Unmarshal([]byte(data), &answer); err != nil {
		return "", fmt.Errorf("dds: %s: unexpected answer %q: %w", c.name, data, err)
	}
	if answer.Name == nil { // not "released"
		return "", fmt.Errorf("dds: %s: the answer %q names no controller", c.name, data)
	}
	return *answer.Name, nil
}

// Release releases the robot's own controller: it repeats ReleaseMode until none is active. **The
// motors then lose their torque.**
func (c *Client) Release(ctx context.Context) error {
	for {
		name, err := c.Controller(ctx)
		if err != nil || name == "" {
			return err
		}
		if code, _, err := c.Call(ctx, ReleaseMode, "{}"); err != nil || code != 0 {
			err = cmp.Or(err, ctx.Err(), errRefused)
			return fmt.Errorf("dds: %s: %s was not released (code %d): %w", c.name, name, code, err)
		}
		select { // it takes a while
		case <-ctx.Done():
		case <-time.After(releaseEvery):
		}
	}
}
