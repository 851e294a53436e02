"""An import with dependencies: files are read side by side, and the report comes after all of them.

    python examples/import_orders.py FILE.csv ...    puts the jobs, runs a worker, prints the report

Each line of a file is CUSTOMER,AMOUNT.
"""

import asyncio
import csv
import sqlite3
import sys
from typing import Dict

from jobcentre import App, Retry, Worker

app = App()
DATABASE = "orders.sqlite"


@app.task(queue="orders", retry=Retry(5, base=0.5, on=(sqlite3.OperationalError, OSError)))
def read_file(path: str) -> None:
    """A job may run twice: it puts its own file's orders in the place of former ones."""
    with open(path, newline="", encoding="utf-8") as file:
        orders = [(path, customer, int(amount)) for customer, amount in csv.reader(file)]
    with sqlite3.connect(DATABASE) as database:
        database.execute("create table if not exists orders (file, customer, amount)")
        database.execute("delete from orders where file = ?", (path,))
        database.executemany("insert into orders values (?, ?, ?)", orders)


@app.task(queue="orders", keep_result=600)
def report() -> Dict[str, int]:
    with sqlite3.connect(DATABASE) as database:
        query = "select customer, sum(amount) from orders group by customer order by customer"
        return dict(database.execute(query).fetchall())


async def main() -> None:
    files = await read_file.aput_many([(path,) for path in sys.argv[1:]])
    last = await report.options(after=[job.id for job in files]).aput()
    worker = Worker(app, concurrency=4)
    working = asyncio.ensure_future(worker.run())
    for customer, amount in (await last.aresult(timeout=300)).items():
        print(customer, amount)
    worker.stop()
    await working
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
