# What python does with all its functions probed.
import json, re, zlib, hashlib, sqlite3, threading, collections
d=json.loads(json.dumps({str(i):[i,i*1.5,"x"*i] for i in range(300)}))
print(hashlib.sha256(json.dumps(d).encode()).hexdigest())
print(len(zlib.compress(b"abc"*100000)))
def f(n): return n if n<2 else f(n-1)+f(n-2)
print(f(22))
def g():
    try: raise ValueError("x")
    except ValueError as e: return str(e)
t=[threading.Thread(target=lambda:[g() for _ in range(2000)]) for _ in range(4)]
[x.start() for x in t];[x.join() for x in t]
c=sqlite3.connect(":memory:");c.execute("create table t(a,b)");c.executemany("insert into t values(?,?)",[(i,str(i)) for i in range(3000)]);print(c.execute("select sum(a),count(distinct b) from t where b like '%9%'").fetchall())
print(re.sub(r"(a+)b",lambda m:m.group(1).upper(),"aab"*50)[:30])
