// Enqueues tasks with asynq and has them done: asynq PORT TASKS PAYLOAD.
//
// Prints the seconds that both took, as JSON. asynq sends one task in a call, and one of its servers
// fetches one task at a time: 64 goroutines enqueue over as many connections, and several servers
// of this process share the queue `default`. The defaults of the flags were the fastest of
// 1 to 16 servers with about 100 tasks under way together, and of 16 to 128 goroutines. Tasks are
// removed when they are done (asynq's default, retention 0).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	kind     = "job"
	queue    = "default"
	patience = 10 * time.Second
)

var (
	enqueuers   = flag.Int("enqueuers", 64, "goroutines that enqueue, each with a connection")
	servers     = flag.Int("servers", 8, "servers that share the queue")
	concurrency = flag.Int("concurrency", 12, "tasks under way at each server")
)

// enqueue returns when all tasks are in Redis.
func enqueue(redis asynq.RedisClientOpt, tasks int, payload []byte) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	var left atomic.Int64
	left.Store(int64(tasks))
	failures := make(chan error, *enqueuers)
	for range *enqueuers {
		go func() {
			for left.Add(-1) >= 0 {
				if _, err := client.Enqueue(asynq.NewTask(kind, payload)); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	var failed error
	for range *enqueuers {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}

// work returns when all tasks are done, and gone from Redis.
func work(redis asynq.RedisClientOpt, tasks int) error {
	var count atomic.Int64
	handled := make(chan struct{})
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if count.Add(1) == int64(tasks) {
			close(handled)
		}
		return nil
	})
	for range *servers {
		config := asynq.Config{Concurrency: *concurrency, LogLevel: asynq.ErrorLevel}
		if err := asynq.NewServer(redis, config).Start(handler); err != nil {
			return err
		}
	}
	<-handled
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			return err
		}
		if info.Size == 0 && info.ProcessedTotal == tasks && info.FailedTotal == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("handled are %d tasks, but the queue has %+v", count.Load(), *info)
		}
	}
}

func run() error {
	flag.Parse()
	var numbers [3]int
	if flag.NArg() != len(numbers) {
		return fmt.Errorf("give PORT TASKS PAYLOAD, not %q", flag.Args())
	}
	for at := range numbers {
		var err error
		if numbers[at], err = strconv.Atoi(flag.Arg(at)); err != nil {
			return err
		}
	}
	port, tasks, payload := numbers[0], numbers[1], numbers[2]
	redis := asynq.RedisClientOpt{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: *enqueuers}
	begun := time.Now()
	if err := enqueue(redis, tasks, bytes.Repeat([]byte("x"), payload)); err != nil {
		return err
	}
	put := time.Since(begun)
	begun = time.Now()
	if err := work(redis, tasks); err != nil {
		return err
	}
	done := time.Since(begun)
	figures := map[string]float64{"put_seconds": put.Seconds(), "done_seconds": done.Seconds()}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

func main() {
	// The servers end with the process: to shut them down would take seconds that are not measured.
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}
