<?php
// The life of jobs by pheanstalk. Arguments: the server's host and port.
require "/usr/share/php/Pheanstalk/autoload.php";

use Pheanstalk\Pheanstalk;

function check(bool $condition, string $what): void
{
    if (!$condition) {
        throw new RuntimeException("not so: $what");
    }
}

// It shows the quotes that beanstalkd 1.13 writes around a name.
$client = Pheanstalk::create($argv[1], (int) $argv[2]);
$client->useTube("mails");
$client->watchOnly("mails");
$first = $client->put("first", 7, 0, 30);
$job = $client->reserveWithTimeout(5);
check($job->getId() === $first->getId() && $job->getData() === "first", "reserved");
$stats = $client->statsJob($job);
check($stats["state"] === "reserved" && $stats["pri"] === "7", "statistics of a job");
check(trim($stats["tube"], '"') === "mails", "tube of a job");
$client->touch($job);
$client->bury($job);
check($client->peekBuried()->getId() === $first->getId(), "buried");
check($client->kick(10) === 1, "kicked");
$job = $client->reserveWithTimeout(0);
$client->release($job, 7, 1);
check($client->peekDelayed()->getId() === $first->getId(), "delayed");
$job = $client->reserve();
check($job->getId() === $first->getId(), "reserved once it was due");
$client->bury($job);
$client->kickJob($job);
check($client->peekReady()->getId() === $first->getId(), "kicked by its id");
$client->delete($job);
check($client->reserveWithTimeout(0) === null, "no job");
try {
    $client->put(str_repeat("x", 65536));
    throw new RuntimeException("no JOB_TOO_BIG");
} catch (\Pheanstalk\Exception\JobTooBigException $error) {
}
$client->pauseTube("mails", 100);
$client->put("later");
check($client->reserveWithTimeout(0) === null, "paused");
$client->resumeTube("mails");
check($client->reserveWithTimeout(5)->getData() === "later", "reserved after the pause");
check(trim($client->statsTube("mails")["name"], '"') === "mails", "statistics of a tube");
check((int) $client->stats()["current-connections"] === 1, "statistics");
check($client->listTubes() === ["default", "mails"], "tubes");
check($client->listTubesWatched(true) === ["mails"], "watched tubes");
check($client->listTubeUsed(true) === "mails", "used tube");
